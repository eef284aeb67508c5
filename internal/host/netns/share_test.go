package netns

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShareOnce: a second mount onto itself would hide what is bound there.
func TestShareOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "netns")
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	for range 2 {
		if err := share(dir); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "bound")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", name, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := share(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(name, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Errorf("remove what was bound: %v", err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(dir, 0); err == nil {
		t.Error("the directory was mounted onto itself twice")
	}
}
