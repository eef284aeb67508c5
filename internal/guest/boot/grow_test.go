package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// run runs a program and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// disks makes an image as templates have it, and mounts it; the disk that it's on has more room.
func disks(t *testing.T, format, size int64) (device, dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, format); err != nil {
		t.Fatal(err)
	}
	run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	device = run(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { exec.Command("losetup", "--detach", device).Run() })
	dir = t.TempDir()
	if err := unix.Mount(device, dir, diskType, unix.MS_NOATIME, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return device, dir
}

func TestFileSystemGrowsWithItsDisk(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ format, size int64 }{
		"not at all": {64 * mib, 64 * mib}, "a little": {64 * mib, 72 * mib}, "many times": {64 * mib, 6 << 30}, "by less than a block": {64 * mib, 64*mib + 512},
	} {
		t.Run(name, func(t *testing.T) {
			device, dir := disks(t, c.format, c.size)
			kept := filepath.Join(dir, "kept")
			if err := os.WriteFile(kept, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				err := grow(device, dir)
				if errors.Is(err, unix.EPERM) && strings.Contains(err.Error(), fmt.Sprintf("to %d blocks", c.size>>12)) {
					return // it asked for the right thing; this machine's root has no CAP_SYS_RESOURCE
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var st unix.Statfs_t
			if err := unix.Statfs(dir, &st); err != nil {
				t.Fatal(err)
			}
			if got, least := int64(st.Blocks)*st.Bsize, c.size*3/4; c.size > c.format+mib && got < least {
				t.Errorf("%d bytes of %d", got, c.size)
			}
			if b, err := os.ReadFile(kept); string(b) != "content" {
				t.Errorf("%q, %v", b, err)
			}
			if err := unix.Unmount(dir, 0); err != nil {
				t.Fatal(err)
			}
			run(t, "e2fsck", "-f", "-n", device)
		})
	}
}

func TestWhatIsNoExt4DoesNotGrow(t *testing.T) {
	p := filepath.Join(t.TempDir(), "disk")
	for _, content := range []int{0, 100, 4096} {
		if err := os.WriteFile(p, make([]byte, content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := grow(p, "/nowhere"); err == nil {
			t.Errorf("%d zero bytes grew", content)
		}
	}
}

func FuzzSuperblock(f *testing.F) {
	f.Add(make([]byte, superblockLen), int64(1<<30))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) < superblockLen || size < 0 {
			return
		}
		if _, want, err := blocks(b, size); err == nil && want > uint64(size) {
			t.Fatalf("%d blocks in %d bytes", want, size)
		}
	})
}
