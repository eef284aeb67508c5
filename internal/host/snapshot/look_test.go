package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		"its disk was changed":   {rewrite(DiskName), isDamaged(false)},
		"its state is removed":   {func(dir string) error { return os.Remove(filepath.Join(dir, StateName)) }, isDamaged(true)},
		"its memory was changed": {rewrite(MemoryName), isDamaged(true)},
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

// isDamaged: it's there, and the report says what is wrong with it.
func isDamaged(boots bool) func(*testing.T, *Store, Report, Report, bool) {
	return func(t *testing.T, s *Store, was, now Report, there bool) {
		t.Helper()
		if !there || now.State != Ready || now.Digest != was.Digest || space.CodeOf(now.Err) != space.CodeSnapshotUnusable || strings.Contains(now.Err.Error(), "can still be booted") != boots {
			t.Errorf("it's reported as %+v", now)
		}
	}
}

// rewrite has a file hold something else of the same length.
func rewrite(name string) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[0] ^= 1
		return os.WriteFile(path, b, 0o600)
	}
}

// TestWhatWasPutAsideIsReportedInTheNextLife, until it's to be removed: what is left of it stays for its operator.
func TestWhatWasPutAsideIsReportedInTheNextLife(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{})
	r := take(t, s)
	s.Close()
	if err := rewriteManifest(`"disk.img"`, `"disk.IMG"`)(s.dirOf(r.Snapshot, "")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the life that finds it, and one that finds it put aside
		s = open(t, dir, directories{})
		now, there := s.Find(r.Snapshot)
		isPutAside(t, s, r, now, there)
		s.Close()
	}
	s = open(t, dir, directories{})
	if err := s.Remove(r.Snapshot); err != nil {
		t.Fatal(err)
	}
	if now, there := s.Find(r.Snapshot); there {
		t.Errorf("it's still reported as %+v", now)
	}
	if _, err := os.Stat(s.dirOf(r.Snapshot, unreadableSuffix)); err != nil {
		t.Errorf("what is left of it: %v", err)
	}
}

// TestARepairedSnapshotIsNoLongerDamaged in the next life: in this one it's another file.
func TestARepairedSnapshotIsNoLongerDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{})
	r := take(t, s)
	name := filepath.Join(s.dirOf(r.Snapshot, ""), StateName)
	for _, step := range []struct {
		from, to string
		damaged  bool
	}{{name, name + ".away", true}, {name + ".away", name, false}} {
		if err := os.Rename(step.from, step.to); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = open(t, dir, directories{})
		s.lookAtAll()
		if now, _ := s.Find(r.Snapshot); now.State != Ready || (now.Err != nil) != step.damaged {
			t.Errorf("it's reported as %+v", now)
		}
	}
}

// TestWhatWasFoundIsFoundInTheNextLife, too, until the files are read again and hold what they should.
func TestWhatWasFoundIsFoundInTheNextLife(t *testing.T) {
	for _, name := range []string{StateName, MemoryName, DiskName} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, directories{})
			r := take(t, s)
			path := filepath.Join(s.dirOf(r.Snapshot, ""), name)
			right, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wrong := bytes.Clone(right)
			for i := range wrong {
				wrong[i] ^= 1
			}
			restart := func(content []byte) {
				t.Helper()
				s.Close()
				if content != nil {
					if err := os.WriteFile(path, content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s = open(t, dir, directories{})
			}
			load := func() error {
				_, give, err := s.Borrow(r.Snapshot, r.Digest, false)
				if err == nil {
					give()
				}
				s.lookAtAll()
				return err
			}
			reported := func(when string, damaged bool) {
				t.Helper()
				if now, _ := s.Find(r.Snapshot); now.State != Ready || (now.Err != nil) != damaged {
					t.Errorf("%s it's reported as %+v", when, now)
				}
			}
			restart(wrong)
			reported("before it's read", false)
			if err := load(); space.CodeOf(err) != space.CodeSnapshotUnusable {
				t.Fatalf("it's loaded: %v", err)
			}
			reported("when it was read", true)
			restart(nil)
			reported("in the next life", true)
			restart(right)
			reported("repaired, and not yet read,", true)
			if err := load(); err != nil {
				t.Fatal(err)
			}
			reported("repaired and read", false)
			restart(nil)
			reported("after that", false)
			restart(wrong)
			load()
			if err := s.Remove(r.Snapshot); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
			orphan := s.dirOf(r.Snapshot, foundSuffix)
			if err := os.WriteFile(orphan, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			restart(nil)
			if _, err := os.Stat(orphan); err == nil {
				t.Error("what was found of one that is gone is still there")
			}
		})
	}
}

func isPutAside(t *testing.T, s *Store, was, now Report, there bool) {
	t.Helper()
	if !there || now.State != Failed || space.CodeOf(now.Err) != space.CodeSnapshotUnusable {
		t.Errorf("it's reported as %+v", now)
	}
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
