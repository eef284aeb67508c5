//go:build vm

package rootfs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// maxBaseBytes is what the base template may use of its disk, before the zeroes in it become holes: a tenth of it are tables of free inodes.
const maxBaseBytes = 660 << 20

func TestBaseIsDebianWithPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Self().Make(t.Context(), Order{Dir: dir, Recipe: "base", DiskBytes: find(t, "base").Size.DiskBytes}, func(l string) { t.Log(l) }); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, DiskName)
	if out, err := exec.Command("e2fsck", "-fn", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(image, &st); err != nil {
		t.Fatal(err)
	}
	if used := st.Blocks * 512; used > maxBaseBytes {
		t.Errorf("it uses %d bytes, limit %d", used, maxBaseBytes)
	}
	for path, want := range map[string]string{
		"/etc/passwd": "user:x:1000:1000:", "/etc/sudoers.d/user": "NOPASSWD", "/etc/apt/sources.list": " bookworm ", "/etc/hosts": Hostname,
	} {
		if got := ask(t, image, "cat "+path); !strings.Contains(got, want) {
			t.Errorf("%s is %q", path, got)
		}
	}
	for _, path := range []string{"/usr/bin/python3", "/usr/bin/pip3", "/usr/bin/git", "/usr/bin/curl", "/usr/bin/sudo", "/usr/sbin/ip", "/bin/ps", "/usr/bin/node", "/usr/bin/npm", "/usr/bin/python"} {
		if got := ask(t, image, "stat "+path); !strings.Contains(got, "Inode:") {
			t.Errorf("no %s: %s", path, got)
		}
	}
	if got := ask(t, image, "ls -p /etc/apt/apt.conf.d"); strings.Contains(got, "mmdebstrap") {
		t.Errorf("how the machine reaches its archives has stayed: %s", got)
	}
	t.Logf("%d MB", st.Blocks*512/1e6)
}
