package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
)

// parts is a Next of some pieces.
func parts(pieces ...string) Next {
	return func() ([]byte, bool, error) {
		p := pieces[0]
		pieces = pieces[1:]
		return []byte(p), len(pieces) == 0, nil
	}
}

func newStore(t *testing.T) *Store {
	t.Helper()
	return openStore(t, t.TempDir(), time.Now)
}

func openStore(t *testing.T, dir string, now func() time.Time) *Store {
	t.Helper()
	s, err := open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func names(t *testing.T, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func sumOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestPutIsThereInTheNextLife(t *testing.T) {
	s, id := newStore(t), space.NewID(space.PrefixUpload)
	got, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100, SHA256: sumOf("abcdef")}, parts("abc", "", "def"))
	if err != nil || got.Bytes != 6 || got.SHA256 != sumOf("abcdef") {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "half.of"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, s.dir, time.Now)
	f, done, err := again.Use(id)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if b, err := os.ReadFile(f.Path); err != nil || string(b) != "abcdef" {
		t.Errorf("%q, %v", b, err)
	}
	if left := names(t, again); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

func TestPutTakesAnOlderOnesPlace(t *testing.T) {
	s, id := newStore(t), space.NewID(space.PrefixUpload)
	u := Upload{ID: id, MaxBytes: 100}
	for _, text := range []string{"one", "two"} {
		if _, err := s.Put(t.Context(), u, parts(text)); err != nil {
			t.Fatal(err)
		}
	}
	f, done, err := s.Use(id)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(f.Path); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Put(t.Context(), u, parts("three")); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("while it's used: %v", err)
	}
	done()
	done()
	if _, err := s.Put(t.Context(), u, parts("three")); err != nil {
		t.Error(err)
	}
	if left := names(t, s); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

func TestPutThatFailsLeavesWhatWasThere(t *testing.T) {
	s, id := newStore(t), space.NewID(space.PrefixUpload)
	if _, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100}, parts("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken off")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		u    Upload
		next Next
		want error
		code space.Code
	}{
		"another digest": {t.Context(), Upload{ID: id, MaxBytes: 9, SHA256: sumOf("x")}, parts("y"), nil, space.CodeInvalid},
		"no digest":      {t.Context(), Upload{ID: id, MaxBytes: 9, SHA256: "x"}, parts("y"), nil, space.CodeInvalid},
		"too many bytes": {t.Context(), Upload{ID: id, MaxBytes: 3}, parts("1234"), nil, space.CodeTooLarge},
		"no limit":       {t.Context(), Upload{ID: id}, parts(""), nil, space.CodeInvalid},
		"no id":          {t.Context(), Upload{ID: "upl_../../x", MaxBytes: 9}, parts(""), nil, space.CodeInvalid},
		"broken off":     {t.Context(), Upload{ID: id, MaxBytes: 9}, func() ([]byte, bool, error) { return nil, false, broken }, broken, space.CodeInternal},
		"given up":       {gone, Upload{ID: id, MaxBytes: 9}, parts("1"), context.Canceled, space.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Put(test.ctx, test.u, test.next)
			if space.CodeOf(err) != test.code || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
			f, done, err := s.Use(id)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if b, err := os.ReadFile(f.Path); err != nil || string(b) != "old" || len(names(t, s)) != 2 {
				t.Errorf("%q, %v, %v", b, err, names(t, s))
			}
		})
	}
}

func TestOldUploadsGo(t *testing.T) {
	at := time.Now()
	s := openStore(t, t.TempDir(), func() time.Time { return at })
	used, unused := space.NewID(space.PrefixUpload), space.NewID(space.PrefixUpload)
	for _, id := range []string{used, unused} {
		if _, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 9}, parts("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, done, err := s.Use(used)
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(lifetime)
	s.sweep()
	if left := names(t, s); len(left) != 2 || !strings.HasPrefix(left[0], space.HostLabel(used)) {
		t.Errorf("left are %v", left)
	}
	done()
	s.sweep()
	if left := names(t, s); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	if _, _, err := s.Use(used); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("it's still there: %v", err)
	}
}

func TestUploadsAtTheSameTimeAreBounded(t *testing.T) {
	s := newStore(t)
	ready, release := make(chan struct{}), make(chan struct{})
	var puts sync.WaitGroup
	defer puts.Wait()
	defer close(release)
	for range maxPuts {
		puts.Go(func() {
			s.Put(t.Context(), Upload{ID: space.NewID(space.PrefixUpload), MaxBytes: 9}, func() ([]byte, bool, error) {
				ready <- struct{}{}
				<-release
				return nil, true, nil
			})
		})
		<-ready
	}
	if _, err := s.Put(t.Context(), Upload{ID: space.NewID(space.PrefixUpload), MaxBytes: 9}, parts("")); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("one more: %v", err)
	}
}
