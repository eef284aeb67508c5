package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
)

// TestWhatBecomesOfASnapshotIsToldInTheSameLife damages snapshots below a store: it reports what the next one would, by itself or when somebody wants to load one.
func TestWhatBecomesOfASnapshotIsToldInTheSameLife(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   func(t *testing.T, s *Store, was Report, now Report, there bool)
	}{
		"nothing": {func(string) error { return nil }, func(t *testing.T, _ *Store, was, now Report, there bool) {
			if !there || now.State != Ready || now.Digest != was.Digest {
				t.Errorf("it's reported as %+v", now)
			}
		}},
		"it's removed":               {os.RemoveAll, isGone},
		"its manifest is removed":    {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, isPutAside},
		"its manifest can't be read": {rewriteManifest(`"disk.img"`, `"disk.IMG"`), isPutAside},
		"its manifest is another's":  {rewriteManifest(`"snp_`, `"snp_aaaaaaaaaaaaaaaaaaaaaaaaaa","x":"`), isPutAside},
		"its manifest says other things": {rewriteManifest(`"kernel": "k"`, `"kernel": "K"`), func(t *testing.T, s *Store, was, now Report, there bool) {
			if !there || now.State != Ready || now.Digest == was.Digest {
				t.Errorf("it's reported as %+v", now)
			}
			got, give, err := s.Borrow(was.Snapshot, was.Digest, true) // from its disk, which is as that manifest says
			if err != nil || got.Digest != now.Digest {
				t.Fatalf("a boot: %+v, %v", got, err)
			}
			give()
			if err := os.WriteFile(filepath.Join(s.dirOf(was.Snapshot, ""), DiskName), []byte("disc"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Borrow(was.Snapshot, was.Digest, true); space.CodeOf(err) != space.CodeSnapshotUnusable {
				t.Errorf("a boot from another disk: %v", err)
			}
		}},
		"its disk is removed": {func(dir string) error { return os.Remove(filepath.Join(dir, DiskName)) }, func(t *testing.T, _ *Store, _, now Report, there bool) {
			if !there || now.State != Failed || space.CodeOf(now.Err) != space.CodeSnapshotUnusable {
				t.Errorf("it's reported as %+v", now)
			}
		}},
	} {
		for how, look := range map[string]func(*Store, Report){
			"by itself":        func(s *Store, _ Report) { s.lookAtAll() },
			"when it's loaded": func(s *Store, r Report) { s.borrowAndGive(r) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := open(t, t.TempDir(), directories{})
				r := take(t, s)
				if err := c.damage(s.dirOf(r.Snapshot, "")); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					look(s, r)
				}
				now, there := s.Find(r.Snapshot)
				c.want(t, s, r, now, there)
				if err := s.borrowAndGive(r); name != "nothing" && space.CodeOf(err) != space.CodeSnapshotUnusable || name == "nothing" && err != nil {
					t.Errorf("a load says %v", err)
				}
				if err := s.Remove(r.Snapshot); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func (s *Store) borrowAndGive(r Report) error {
	_, give, err := s.Borrow(r.Snapshot, r.Digest, false)
	if err == nil {
		give()
	}
	return err
}

func isGone(t *testing.T, _ *Store, _, now Report, there bool) {
	t.Helper()
	if there {
		t.Errorf("it's reported as %+v", now)
	}
}

func isPutAside(t *testing.T, s *Store, was, now Report, there bool) {
	t.Helper()
	isGone(t, s, was, now, there)
	if _, err := os.Stat(s.dirOf(was.Snapshot, unreadableSuffix)); err != nil {
		t.Errorf("what is left isn't put aside: %v", err)
	}
}

// rewriteManifest has a manifest say something else.
func rewriteManifest(old, anew string) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, manifestName)
		text, err := durable.ReadFile(path, maxManifest)
		if err == nil && !bytes.Contains(text, []byte(old)) {
			err = fmt.Errorf("the manifest doesn't say %s: %s", old, text)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(anew), 1), 0o600)
	}
}
