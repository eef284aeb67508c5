package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKernelWithoutModulesNeedsNone(t *testing.T) {
	if err := loadModules(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestModuleThatCannotBeLoadedIsNamed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"order": "good.ko\n", "good.ko": "not a module"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := loadModules(dir); err == nil || !strings.Contains(err.Error(), "load module good.ko") {
		t.Errorf("%v, want the module's name", err)
	}
}

func TestMountsGoWhereAnImageExpectsThem(t *testing.T) {
	root := t.TempDir()
	t.Cleanup(func() {
		for _, dir := range []string{"proc", "sys", "dev"} {
			unix.Unmount(filepath.Join(root, dir), unix.MNT_DETACH)
		}
	})
	if err := mountKernel(root); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"proc/self/stat", "sys/class", "dev/null"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestSymlinkReplaces(t *testing.T) {
	link := filepath.Join(t.TempDir(), "fd")
	for _, target := range []string{"old", "/proc/self/fd"} {
		if err := symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.Readlink(link); got != "/proc/self/fd" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLimitsOfThisMachine(t *testing.T) {
	if n := memoryTotal(); n < smallestGuest {
		t.Errorf("this machine has %d bytes of memory", n)
	}
	if n := threadsMax(); n <= agentThreads {
		t.Errorf("this machine has %d threads", n)
	}
}
