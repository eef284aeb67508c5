package boot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asMachine has the test's program be the first process of something like a machine: with processes, mounts and a name of its own.
const asMachine = "SPACE_TEST_AS_MACHINE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asMachine); dir != "" {
		if err := tellNames(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tellNames covers the names of an image whose /etc is in a directory, takes new ones, and prints them.
func tellNames(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := mountAll([]mount{{"proc", "/proc", "proc", safest, ""}, {"tmpfs", "/run", "tmpfs", safe, "mode=0755"}}); err != nil {
		return err
	}
	for _, d := range []string{"/etc", "/var/lib"} {
		if err := unix.Mount(filepath.Join(dir, d), d, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := os.Mkdir(runDir, 0o755); err != nil {
		return err
	}
	c := coverNames()
	for _, f := range append(c.MachineID, c.BootID, c.Hosts) {
		if f == nil {
			return fmt.Errorf("not all is covered: %+v", c)
		}
		if _, err := f.WriteAt([]byte("new"), 0); err != nil {
			return err
		}
	}
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hosts", bootIDPath} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Println(string(b[:3]), len(b))
	}
	// A user's container.
	inner := exec.Command("busybox", "unshare", "-r", "-p", "-f", "--mount-proc", "sh", "-c", "echo pid $$")
	inner.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := inner.CombinedOutput()
	if err != nil {
		return fmt.Errorf("a user's container: %w: %s", err, out)
	}
	fmt.Print(string(out))
	return nil
}

// TestNamesAreCoveredInMemory: what names the machine can be changed without writing to the image, and a user can still have a proc of his own.
func TestNamesAreCoveredInMemory(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "var/lib/dbus/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/hosts": "127.0.0.1 localhost\n",
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asMachine+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := strings.Join(strings.Fields(string(out)), " "), "new 33 new 33 new 20 new 37 pid 1"; !strings.HasPrefix(got, want) {
		t.Errorf("it says %q, want %s", got, want)
	}
	for name, content := range files {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != content {
			t.Errorf("%s was written to: %q, %v", name, b, err)
		}
	}
}
