package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
)

func clearCloseOnExec(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
	return err
}

// qemu runs the real VMM with its seccomp filter, and nothing in it.
func qemu(t *testing.T, e vmm.Enclosure) vmm.Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/qemu-system-x86_64", Files: []*os.File{w}, Log: w, Args: []string{
		"-M", "none", "-S", "-display", "none", "-nodefaults", "-no-user-config", "-chardev", "stdio,id=out", "-mon", "out,mode=control",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
	}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.PIDFD.Close() })
	greeting := make([]byte, 512)
	n, err := r.Read(greeting) // QEMU is up, and its filter with it, when its monitor greets
	if err != nil || !strings.Contains(string(greeting[:n]), "QMP") {
		t.Fatalf("QEMU said %q, %v", greeting[:n], err)
	}
	return p
}

// TestFromOutside reads in /proc what the kernel knows about a real VMM.
func TestFromOutside(t *testing.T) {
	j := setup(t)
	s := spec(1)
	e := enclose(t, j, s)
	p := qemu(t, e)
	status := fields(t, p.PID, "status", ":")
	for name, want := range map[string]string{
		"Uid": fmt.Sprintf("%[1]d\t%[1]d\t%[1]d\t%[1]d", s.UID), "Gid": fmt.Sprintf("%[1]d\t%[1]d\t%[1]d\t%[1]d", s.UID), "Groups": "",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got := strings.TrimSpace(status[name]); got != want {
			t.Errorf("status: %s is %q, want %q", name, got, want)
		}
	}
	for _, ns := range []string{"mnt", "ipc", "uts", "net"} {
		if readlink(t, p.PID, "ns/"+ns) == readlink(t, os.Getpid(), "ns/"+ns) {
			t.Errorf("it's in the host's %s namespace", ns)
		}
	}
	checkRoot(t, p.PID)
	for line := range strings.Lines(string(read(t, p.PID, "cgroup"))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if strings.Contains("memory cpu cpuacct pids freezer", f[1]) && f[1] != "" && f[2] != "/space/"+here().Name+"/"+s.ID {
			t.Errorf("cgroup: %s", line)
		}
	}
	limits := string(read(t, p.PID, "limits"))
	for _, want := range []string{"Max core file size 0 0 bytes", "Max open files 1024 1024 files", "Max file size 268435456 268435456 bytes"} {
		if !strings.Contains(strings.Join(strings.Fields(limits), " "), want) {
			t.Errorf("limits lack %q:\n%s", want, limits)
		}
	}
	if got := strings.TrimSpace(string(read(t, p.PID, "oom_score_adj"))); got != "500" {
		t.Errorf("oom_score_adj is %s", got)
	}
	if sid, err := unix.Getsid(p.PID); err != nil || sid != p.PID {
		t.Errorf("its session is %d, %v, want its own", sid, err)
	}
}

const none = "0000000000000000"

// checkRoot looks at the root directory through /proc, and at what is mounted in it.
func checkRoot(t *testing.T, pid int) {
	t.Helper()
	if root, err := os.Stat(fmt.Sprintf("/proc/%d/root/.", pid)); err != nil {
		t.Error(err)
	} else if host, err := os.Stat("/"); err != nil || os.SameFile(root, host) {
		t.Errorf("its root is the host's, %v", err)
	}
	for line := range strings.Lines(string(read(t, pid, "mountinfo"))) {
		f := strings.Fields(line)
		point, options := f[4], ","+f[5]+","
		if !strings.Contains(options, ",ro,") || !strings.Contains(options, ",nosuid,") {
			t.Errorf("mount %s has options %s", point, f[5])
		}
		if point != "/dev" && !strings.Contains(options, ",nodev,") {
			t.Errorf("mount %s allows devices", point)
		}
		if !strings.HasPrefix(point, "/usr") && !strings.HasPrefix(point, "/lib") && !strings.Contains(options, ",noexec,") {
			t.Errorf("mount %s allows execution", point)
		}
	}
	if mounts, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/*", pid)); len(mounts) > 6 {
		t.Errorf("its root holds %v", mounts)
	}
}

func read(t *testing.T, pid int, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readlink(t *testing.T, pid int, name string) string {
	t.Helper()
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func fields(t *testing.T, pid int, name, sep string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(string(read(t, pid, name))) {
		k, v, _ := strings.Cut(strings.TrimRight(line, "\n"), sep)
		out[k] = v
	}
	return out
}
