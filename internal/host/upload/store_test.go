package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// own is a project.
var own = space.NewID(space.PrefixProject)

func newStore(t *testing.T) *Store {
	t.Helper()
	return openStore(t, t.TempDir(), time.Now)
}

func openStore(t *testing.T, dir string, now func() time.Time) *Store {
	t.Helper()
	s, err := open(dir, now, func() {})
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
	got, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100, Project: own, ProjectBytes: 1 << 20, SHA256: sumOf("abcdef")}, parts("abc", "", "def"))
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
	u := Upload{ID: id, MaxBytes: 100, Project: own, ProjectBytes: 1 << 20}
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
	if _, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100, Project: own, ProjectBytes: 1 << 20}, parts("old")); err != nil {
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
		"another digest": {t.Context(), Upload{ID: id, MaxBytes: 9, Project: own, ProjectBytes: 1 << 20, SHA256: sumOf("x")}, parts("y"), nil, space.CodeInvalid},
		"no digest":      {t.Context(), Upload{ID: id, MaxBytes: 9, Project: own, ProjectBytes: 1 << 20, SHA256: "x"}, parts("y"), nil, space.CodeInvalid},
		"too many bytes": {t.Context(), Upload{ID: id, MaxBytes: 3, Project: own, ProjectBytes: 1 << 20}, parts("1234"), nil, space.CodeTooLarge},
		"no limit":       {t.Context(), Upload{ID: id, Project: own, ProjectBytes: 1}, parts(""), nil, space.CodeInvalid},
		"no project":     {t.Context(), Upload{ID: id, MaxBytes: 9, ProjectBytes: 9}, parts(""), nil, space.CodeInvalid},
		"no share":       {t.Context(), Upload{ID: id, MaxBytes: 9, Project: own}, parts("1"), nil, space.CodeQuotaExceeded},
		"no id":          {t.Context(), Upload{ID: "upl_../../x", MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, parts(""), nil, space.CodeInvalid},
		"broken off":     {t.Context(), Upload{ID: id, MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, func() ([]byte, bool, error) { return nil, false, broken }, broken, space.CodeInternal},
		"given up":       {gone, Upload{ID: id, MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, parts("1"), context.Canceled, space.CodeInternal},
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
		if _, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, parts("x")); err != nil {
			t.Fatal(err)
		}
	}
	_, done, err := s.Use(used)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock() // the first sweep may not have looked yet
	at = at.Add(lifetime)
	s.mu.Unlock()
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
			s.Put(t.Context(), Upload{ID: space.NewID(space.PrefixUpload), MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, func() ([]byte, bool, error) {
				ready <- struct{}{}
				<-release
				return nil, true, nil
			})
		})
		<-ready
	}
	if _, err := s.Put(t.Context(), Upload{ID: space.NewID(space.PrefixUpload), MaxBytes: 9, Project: own, ProjectBytes: 1 << 20}, parts("")); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("one more: %v", err)
	}
}

// TestProjectsShare: what a project's uploads have together is bounded to the byte, in the next life too. Another project isn't held up by it,
// what replaces an upload takes the old one's place, and what is swept or breaks off makes room.
func TestProjectsShare(t *testing.T) {
	now := time.Now()
	s := openStore(t, t.TempDir(), func() time.Time { return now })
	put := func(id, project, content string) error {
		_, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100, Project: project, ProjectBytes: 10}, parts(content))
		return err
	}
	fits := func(id, project, content string) {
		t.Helper()
		if err := put(id, project, content); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
	refused := func(id, project, content, taken string) {
		t.Helper()
		err := put(id, project, content)
		if space.CodeOf(err) != space.CodeQuotaExceeded || !strings.Contains(err.Error(), "10 bytes together, and "+taken+" of them") {
			t.Errorf("%q: %v, want the limit named and that %s bytes are taken", content, err, taken)
		}
	}
	id := func() string { return space.NewID(space.PrefixUpload) }
	first, other := id(), space.NewID(space.PrefixProject)
	fits(first, own, "123456")
	refused(id(), own, "12345", "6")
	fits(id(), other, "1234567890")
	fits(first, own, "1234567890")
	refused(id(), own, "1", "10")
	s.Close()
	s = openStore(t, s.dir, func() time.Time { return now })
	refused(id(), own, "1", "10")
	fits(first, own, "12")
	broken, piece := errors.New("broken off"), "12345678"
	if _, err := s.Put(t.Context(), Upload{ID: id(), MaxBytes: 100, Project: own, ProjectBytes: 10}, func() ([]byte, bool, error) {
		if piece == "" {
			refused(id(), own, "1", "10") // what comes in counts already
			return nil, false, broken
		}
		next := piece
		piece = ""
		return []byte(next), false, nil
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	fits(id(), own, "12345678")
	s.mu.Lock() // the first sweep may not have looked yet
	now = now.Add(2 * lifetime)
	s.mu.Unlock()
	s.sweep()
	fits(id(), own, "1234567890")
}

// TestRemoveSparesWhatIsUsed lists uploads and removes them; what a build uses goes when that has ended and it's said again.
func TestRemoveSparesWhatIsUsed(t *testing.T) {
	changes := 0
	s, err := open(t.TempDir(), time.Now, func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ids := []string{space.NewID(space.PrefixUpload), space.NewID(space.PrefixUpload)}
	slices.Sort(ids)
	for _, id := range ids {
		if _, err := s.Put(t.Context(), Upload{ID: id, MaxBytes: 100, Project: own, ProjectBytes: 6}, parts("abc")); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int, all ...Stored) {
		t.Helper()
		if got := s.List(); !slices.Equal(got, all) || changes != n || len(names(t, s)) != 2*len(all) {
			t.Errorf("after %d changes: %v, files %v", changes, got, names(t, s))
		}
	}
	want(2, Stored{ids[0], 3}, Stored{ids[1], 3})
	_, done, err := s.Use(ids[0])
	if err != nil {
		t.Fatal(err)
	}
	s.Remove([]string{ids[0], ids[1], space.NewID(space.PrefixUpload)})
	want(3, Stored{ids[0], 3})
	if _, err := s.Put(t.Context(), Upload{ID: space.NewID(space.PrefixUpload), MaxBytes: 100, Project: own, ProjectBytes: 6}, parts("def")); err != nil {
		t.Errorf("there's no room after a removal: %v", err)
	}
	done()
	s.Remove(ids)
	if got := s.List(); len(got) != 1 || changes != 5 {
		t.Errorf("after %d changes: %v", changes, got)
	}
	if got := openStore(t, s.dir, time.Now).List(); len(got) != 1 {
		t.Errorf("in the next life: %v", got)
	}
}
