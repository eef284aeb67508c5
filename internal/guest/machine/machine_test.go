package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// TestKernelTakesTheSeed uses this machine's generator: more entropy harms nobody.
func TestKernelTakesTheSeed(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer m.random.Close()
	if err := reseed(m.random, &[link.SeedBytes]byte{1, 2, 3}); err != nil {
		t.Error(err)
	}
}

func TestHostsFileHasTheNewName(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString(strings.Repeat("old and long\n", 100))
	m := &Machine{Hosts: f, hostname: "sbx-abc"}
	m.Prepare()
	got, err := os.ReadFile(f.Name())
	if err != nil || !bytes.Equal(got, hosts("sbx-abc")) || !bytes.Contains(got, []byte("127.0.1.1\tsbx-abc\n")) {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestFreezeStopsAndThawContinues uses a real version 2 cgroup; freezing needs no controller.
func TestFreezeStopsAndThawContinues(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	group, err := os.MkdirTemp(root, "freezer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(group) })
	dir, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pid, out := startCat(t, int(dir.Fd()))
	f := &Freezer{Cgroup: group}
	if err := f.Freeze(); err != nil {
		t.Fatal(err)
	}
	if events, _ := os.ReadFile(filepath.Join(group, "cgroup.events")); !strings.Contains(string(events), "frozen 1") {
		t.Errorf("process %d isn't frozen: %q", pid, events)
	}
	if err := f.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := f.Thaw(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	out.WriteString("x")
	b := make([]byte, 1)
	if _, err := out.Read(b); err != nil || b[0] != 'x' {
		t.Errorf("after the thaw the process answered %q, %v", b, err)
	}
}

// startCat starts cat in a cgroup with a socket as its input and output, and ends it with the test.
func startCat(t *testing.T, cgroup int) (pid int, out *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	out = os.NewFile(uintptr(fds[0]), "cat")
	pid, err = syscall.ForkExec("/bin/cat", []string{"cat"}, &syscall.ProcAttr{
		Files: []uintptr{uintptr(fds[1]), uintptr(fds[1])},
		Sys:   &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: cgroup},
	})
	unix.Close(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		out.Close()
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	})
	return pid, out
}
