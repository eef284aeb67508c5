package setup

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// TestOperatorsMountStays mounts a file system for the data, as an operator does who gives it a disk of its own, and one of the instance's.
func TestOperatorsMountStays(t *testing.T) {
	i := instancetest.Own(t)
	disk := i.RoleDir(instance.Host)
	t.Cleanup(func() {
		unix.Unmount(i.Volume(), unix.MNT_DETACH)
		unix.Unmount(disk, unix.MNT_DETACH)
		os.RemoveAll(i.DataDir())
	})
	mount := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
	}
	mount(disk)
	mount(i.Volume())
	if err := unmountAll(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	left, err := mountsBelow(i.DataDir())
	if err != nil || len(left) != 1 || left[0] != filepath.Clean(disk) {
		t.Errorf("mounted are %v, want the operator's alone: %v", left, err)
	}
}
