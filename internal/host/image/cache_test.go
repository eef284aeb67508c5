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

// put puts a blob of repository a into a cache, and checks what comes back.
func put(t *testing.T, c Cache, h v1.Hash, size int64, blob io.Reader) error {
	t.Helper()
	f, err := c.Put(t.Context(), "a", h, size, blob)
	if err != nil {
		return err
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || hashOf(t, b) != h {
		t.Errorf("it returns %q, %v", b, err)
	}
	return nil
}

func TestCacheLetsTheOldestGo(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "new"), Limit: 10}
	var hashes []v1.Hash
	for n, text := range []string{"1111", "2222", "3333"} {
		h := hashOf(t, []byte(text))
		hashes = append(hashes, h)
		if err := put(t, c, h, 4, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+n), 0)
		if err := os.Chtimes(c.name("a", h), at, at); err != nil {
			t.Fatal(err)
		}
		if n == 1 { // the first one is used once more
			f, err := c.Open("a", hashes[0])
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	for n, ok := range []bool{true, false, true} {
		f, err := c.Open("a", hashes[n])
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
		if err := put(t, c, h, 5, strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if err := put(t, c, h, 11, strings.NewReader("right")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one that's too large: %v", err)
	}
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := put(t, c, h, 5, strings.NewReader("right")); err != nil {
		t.Error(err)
	}
	if _, err := c.Open("b", h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another repository has it: %v", err)
	}
	c.MinFree = 1 << 60
	if err := put(t, c, hashOf(t, nil), 0, strings.NewReader("")); !errors.Is(err, errNoSpace) {
		t.Errorf("without room: %v", err)
	}
}

// TestCacheIsSharedByProcesses has one blob on its way while others come, and finds what a dead process left.
func TestCacheIsSharedByProcesses(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Limit: 100}
	h := hashOf(t, []byte("right"))
	dead, err := c.newPart()
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	alive, err := c.newPart()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	young, err := c.newPart()
	if err != nil {
		t.Fatal(err)
	}
	young.Close() // as if it weren't locked yet
	before := time.Now().Add(-2 * partPause)
	for _, f := range []*os.File{dead, alive} {
		if err := os.Chtimes(f.Name(), before, before); err != nil {
			t.Fatal(err)
		}
	}
	slow, fast := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- put(t, c, h, 5, slow) }()
	fast.Write([]byte("ri"))
	for range 2 {
		if err := put(t, c, h, 5, strings.NewReader("right")); err != nil {
			t.Fatal(err)
		}
	}
	fast.Write([]byte("ght"))
	fast.Close()
	if err := <-done; err != nil {
		t.Errorf("the one that took its time: %v", err)
	}
	left := map[string]bool{filepath.Base(alive.Name()): true, filepath.Base(young.Name()): true, filepath.Base(c.name("a", h)): true}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !left[e.Name()] {
			t.Errorf("%s is left", e.Name())
		}
		delete(left, e.Name())
	}
	if len(left) > 0 {
		t.Errorf("%v are gone", left)
	}
}
