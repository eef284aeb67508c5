package image

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func hashOf(t *testing.T, b []byte) v1.Hash {
	t.Helper()
	h, _, err := v1.SHA256(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCacheLetsTheOldestGo(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "new"), Limit: 10}
	var hashes []v1.Hash
	for n, text := range []string{"1111", "2222", "3333"} {
		h := hashOf(t, []byte(text))
		hashes = append(hashes, h)
		if err := c.Put(t.Context(), h, 4, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+n), 0)
		if err := os.Chtimes(c.name(h), at, at); err != nil {
			t.Fatal(err)
		}
		if n == 1 { // the first one is used once more
			f, err := c.Open(hashes[0])
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	for n, ok := range []bool{true, false, true} {
		f, err := c.Open(hashes[n])
		if ok != (err == nil) || !ok && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("blob %d: %v", n, err)
		}
		f.Close()
	}
}

func TestCacheTakesOnlyWhatItsDigestSays(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Limit: 10}
	h := hashOf(t, []byte("right"))
	for text, want := range map[string]error{"wrong": ErrDigest, "longer": ErrDigest, "cut": io.ErrUnexpectedEOF} {
		if err := c.Put(t.Context(), h, 5, strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if err := c.Put(t.Context(), h, 11, strings.NewReader("right")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one that's too large: %v", err)
	}
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := os.WriteFile(c.name(h)+partSuffix, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), h, 5, strings.NewReader("right")); err != nil {
		t.Error(err)
	}
	c.MinFree = 1 << 60
	if err := c.Put(t.Context(), hashOf(t, nil), 0, strings.NewReader("")); !errors.Is(err, errNoSpace) {
		t.Errorf("without room: %v", err)
	}
}
