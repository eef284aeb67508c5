package snapshot

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/seal"
)

// subvolumes are the real ones.
type subvolumes struct{}

func (subvolumes) Make(path string) error   { return disk.CreateSubvolume(path) }
func (subvolumes) Freeze(path string) error { return disk.SetReadOnly(path) }
func (subvolumes) Delete(path string) error {
	return errors.Join(disk.DeleteSubvolume(path), os.RemoveAll(path))
}

// onVolume opens the store on a volume.
func onVolume(t *testing.T, v disk.Volume) *Store {
	t.Helper()
	s, err := Open(Config{Dir: filepath.Join(v.Path, "snapshots"), Volume: subvolumes{}, Own: disk.OwnParts, Extents: disk.Extents, Changed: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// powerLoss has a volume be what was on its disk at one moment: what the kernel still had is gone.
func powerLoss(t *testing.T, v disk.Volume, image []byte) {
	t.Helper()
	if err := errors.Join(v.Unmount(t.Context()), os.WriteFile(v.Image, image, 0o600), v.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// TestReadyIsTrueAfterAPowerLoss: what was said to be ready can be loaded, and what wasn't isn't there.
func TestReadyIsTrueAfterAPowerLoss(t *testing.T) {
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	base := filepath.Join(v.Path, "base")
	if err := errors.Join(os.WriteFile(base, bytes.Repeat([]byte("base"), 1<<20), 0o600), disk.Sync(base)); err != nil {
		t.Fatal(err)
	}
	s := onVolume(t, v)
	ready, unfinished := full(), full()
	for _, o := range []Order{ready, unfinished} {
		b, err := s.Begin(o)
		if err != nil {
			t.Fatal(err)
		}
		fillClone(t, b, base)
		if o == unfinished {
			continue
		}
		m := machineOf()
		m.Sessions = 1
		if err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := s.Find(ready.Snapshot)
	image, err := os.ReadFile(v.Image)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	powerLoss(t, v, image)
	s = onVolume(t, v)
	defer s.Close()
	got, give, err := s.Borrow(r.Snapshot, r.Digest, false)
	if err != nil {
		t.Fatal(err)
	}
	defer give()
	memory, err := os.ReadFile(got.Memory)
	if want := append([]byte("changed!"), bytes.Repeat([]byte("base"), 1<<20)[8:]...); err != nil || !bytes.Equal(memory, want) {
		t.Errorf("the memory has %d bytes, %.10q, %v", len(memory), memory, err)
	}
	if b, err := os.ReadFile(filepath.Join(got.Sessions, "session", "spec.pb")); err != nil || string(b) != "spec" {
		t.Errorf("the session is %q, %v", b, err)
	}
	if len(s.manifestOf(r.Snapshot).Changed) != 1 {
		t.Errorf("its own parts are %v", s.manifestOf(r.Snapshot).Changed)
	}
	if left, err := os.ReadDir(filepath.Join(v.Path, "snapshots")); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func (s *Store) manifestOf(id string) manifest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[id].manifest
}

// fillClone writes the files of a machine that was loaded from a memory, and has changed some of it.
func fillClone(t *testing.T, b *Building, base string) {
	t.Helper()
	if err := b.Make(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{DiskName, MemoryName} {
		if err := disk.Clone(base, b.File(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(b.File(MemoryName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("changed!"), 0)
	session := filepath.Join(b.File(SessionsName), "session")
	err = errors.Join(err, f.Close(), os.WriteFile(b.File(StateName), []byte("state"), 0o600), os.MkdirAll(session, 0o700),
		os.WriteFile(filepath.Join(session, "spec.pb"), []byte("spec"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

var _ seal.Volume = subvolumes{}
