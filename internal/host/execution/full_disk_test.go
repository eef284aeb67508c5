package execution

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// fullDisk puts the executions of a rig on a small file system of their own. The function fills it.
func fullDisk(t *testing.T, r *rig) (fill func()) {
	t.Helper()
	dir := filepath.Join(r.dir, "executions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return func() {
		f, err := os.Create(filepath.Join(dir, "filler.unreadable"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(bytes.Repeat([]byte{1}, 4096))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestRemovalFromAFullDisk deletes what fills a disk: there is no room to write anything down, and there must not have to be.
func TestRemovalFromAFullDisk(t *testing.T) {
	r := newRig(t)
	fill := fullDisk(t, r)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	fill()
	remove(t, table, o.Route)
	if err := os.Remove(filepath.Join(r.dir, "executions", "filler.unreadable")); err != nil {
		t.Fatal(err)
	}
	r.checkNothingLeft()
}
