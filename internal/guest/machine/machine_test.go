package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// TestKernelTakesTheSeed uses this machine's generator: more entropy harms nobody.
func TestKernelTakesTheSeed(t *testing.T) {
	m, err := New(nil, Covers{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.random.Close()
	defer m.disk.Close()
	if err := reseed(m.random, &[link.SeedBytes]byte{1, 2, 3}); err != nil {
		t.Error(err)
	}
}

// hierarchy makes a group that stands for the root of a machine's, with groups below it.
func hierarchy(t *testing.T, groups ...string) string {
	t.Helper()
	all := t.TempDir()
	if err := unix.Mount("cgroup2", all, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(all, unix.MNT_DETACH) })
	root, err := os.MkdirTemp(all, "freezer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(root) })
	for _, g := range groups {
		if err := os.Mkdir(filepath.Join(root, g), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(filepath.Join(root, g)) })
	}
	return root
}

// TestFreezeStopsAllAndThawContinues uses a real version 2 cgroup; freezing needs no controller. Wherever processes have gone, they're stopped, but what
// their user has stopped himself stays so afterwards.
func TestFreezeStopsAllAndThawContinues(t *testing.T) {
	root := hierarchy(t, "agent", "agent/inside", "sessions", "sessions/below", "container", "paused")
	r, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &Freezer{Root: r, Agent: "agent", Sessions: "sessions"}
	f.Look() // what begins afterwards is stopped as well
	cats := map[string]*os.File{}
	for _, g := range []string{".", "agent", "agent/inside", "sessions", "sessions/below", "container", "paused"} {
		dir, err := os.Open(filepath.Join(root, g))
		if err != nil {
			t.Fatal(err)
		}
		_, cats[g] = startCat(t, int(dir.Fd()))
		dir.Close()
	}
	if err := os.WriteFile(filepath.Join(root, "paused/cgroup.freeze"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time nothing is new
		if err := f.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	for g, cat := range cats {
		cat.WriteString("x")
		if ready(t, cat, 20*time.Millisecond) {
			t.Errorf("the process in group %q runs", g)
		}
	}
	for range 2 {
		if err := f.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	for g, cat := range cats {
		if got, want := ready(t, cat, map[bool]time.Duration{true: 20 * time.Millisecond, false: 10 * time.Second}[g == "paused"]), g != "paused"; got != want {
			t.Errorf("after the thaw the process in group %q runs: %v", g, got)
		}
	}
}

// TestFreezeStopsWhatMovesMeanwhile has processes fork into new groups until they're stopped.
func TestFreezeStopsWhatMovesMeanwhile(t *testing.T) {
	root := hierarchy(t, "agent", "sessions")
	dir, err := os.Open(filepath.Join(root, "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	// Each shell makes a group, enters it, and starts the next.
	script := filepath.Join(t.TempDir(), "flee")
	text := "n=$(($1+1)); mkdir " + root + "/g$n && echo $$ >" + root + "/g$n/cgroup.procs && [ $n -lt 300 ] && sh " + script + " $n & wait"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(root, "cgroup.kill"), []byte("1"), 0)
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
			groups, _ := filepath.Glob(filepath.Join(root, "g*"))
			for _, g := range groups {
				os.Remove(g)
			}
			if len(groups) == 0 {
				return
			}
		}
	})
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", script, "0"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL); syscall.Wait4(pid, nil, 0, nil) })
	r, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // it's under way
		if _, err := os.Stat(filepath.Join(root, "g5")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the shells make no groups")
		}
	}
	f := &Freezer{Root: r, Agent: "agent", Sessions: "sessions"}
	if err := f.Freeze(); err != nil {
		t.Fatal(err)
	}
	count := func() int { groups, _ := filepath.Glob(filepath.Join(root, "g*")); return len(groups) }
	before := count()
	for range 20 {
		time.Sleep(time.Millisecond)
		if n := count(); n != before {
			t.Fatalf("frozen shells have made %d more groups", n-before)
		}
	}
	for _, g := range append([]string{"sessions"}, f.frozen...) {
		if !f.has(g, "cgroup.events", "frozen 1") {
			t.Errorf("group %s isn't frozen", g)
		}
	}
	if err := f.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// ready tells whether something can be read within a time, and reads it.
func ready(t *testing.T, f *os.File, within time.Duration) bool {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, int(within.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	if n == 1 {
		f.Read(make([]byte, 1))
	}
	return n == 1
}

func TestClockDoesNotGoBackForALateMessage(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for off, want := range map[time.Duration]bool{
		-time.Hour: false, -onItsWay: false, -40 * time.Millisecond: true, 0: true, time.Millisecond: false, 6 * time.Hour: false,
	} {
		if got := stale(now, now.Add(off)); got != want {
			t.Errorf("a time %s off is stale: %v, want %v", off, got, want)
		}
	}
}

func TestThreadsOfTheKernelStay(t *testing.T) {
	if isKernels(os.Getpid()) {
		t.Error("this process is taken for a thread of the kernel")
	}
	if b, err := os.ReadFile("/proc/2/comm"); err == nil && string(b) == "kthreadd\n" && !isKernels(2) {
		t.Error("kthreadd is taken for a process")
	}
}

// TestANumberOfNobodyIsntKnown has a process end while it's looked at: the next one with its number is brought back like any other.
func TestANumberOfNobodyIsntKnown(t *testing.T) {
	dir := t.TempDir()
	for _, g := range []string{"", "agent", "sessions"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, g), 0o755), os.WriteFile(filepath.Join(dir, g, "cgroup.procs"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 1 << 30 // more than there can be
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Appendln(nil, nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &Freezer{Root: r, Agent: "agent", Sessions: "sessions"}
	known := map[int]bool{}
	if _, err := f.gather(known); err != nil || known[nobody] {
		t.Errorf("it's known to stay: %v, %v", known, err)
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

// TestADiskThatFailsIsTold uses a real file system, whose disk runs full below it.
func TestADiskThatFailsIsTold(t *testing.T) {
	below, top := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(below, unix.MNT_DETACH) })
	image := filepath.Join(below, "disk")
	for _, c := range [][]string{{"truncate", "-s", "64m", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, top}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", c, err, out)
		}
	}
	t.Cleanup(func() { unix.Unmount(top, 0) })
	dir, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	m := &Machine{disk: dir}
	if err := m.writeOut(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "file"), make([]byte, 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.writeOut(); !errors.As(err, new(syscall.Errno)) {
		t.Errorf("the disk takes what it has no room for: %v", err)
	}
}
