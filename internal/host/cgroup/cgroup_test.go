package cgroup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/cgroup"
)

// group makes a group below one of the test's own and removes both at the end.
func group(t *testing.T, l cgroup.Limits) (cgroup.Hierarchy, cgroup.Group) {
	t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := h.Group("space-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Group(parent.Path() + "/" + strings.ReplaceAll(t.Name(), "/", "-"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		if err := errors.Join(g.Kill(ctx), g.Remove(ctx), parent.Remove(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := g.Create(l); err != nil {
		t.Fatal(err)
	}
	return h, g
}

// run runs a shell script that joins the group first: it waits for a line on its stdin.
func run(t *testing.T, g cgroup.Group, script string) (string, error) {
	t.Helper()
	c := exec.Command("sh", "-c", "read go; "+script)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("go\n"))
	err = c.Wait()
	return out.String(), err
}

func TestMemoryLimitKillsWhoExceedsIt(t *testing.T) {
	_, g := group(t, cgroup.Limits{MemoryBytes: 32 << 20})
	out, err := run(t, g, "exec dd bs=128M count=1 if=/dev/zero of=/dev/null")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("a process beyond the limit: %v, want SIGKILL; output %q", err, out)
	}
	u, err := g.Usage()
	if err != nil || u.OOMKills != 1 {
		t.Errorf("usage = %+v, %v, want one OOM kill", u, err)
	}
}

func TestPIDLimitRefusesMoreProcesses(t *testing.T) {
	_, g := group(t, cgroup.Limits{PIDs: 3})
	out, err := run(t, g, "sleep 0.2 & sleep 0.2 & sleep 0.2 & wait")
	if err == nil || !strings.Contains(strings.ToLower(out), "fork") {
		t.Errorf("a fourth process: %v, %q, want a refused fork", err, out)
	}
}

func TestCPULimitAndUsage(t *testing.T) {
	_, g := group(t, cgroup.Limits{CPUMillis: 500, CPUWeight: 25}) // the weight is only accepted
	if out, err := run(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u, err := g.Usage()
	if err != nil || u.CPUNanos == 0 || u.MemoryPeakBytes == 0 {
		t.Errorf("usage = %+v, %v, want CPU time and a memory peak", u, err)
	}
}

func TestKillAndRemoveEndEverything(t *testing.T) {
	h, g := group(t, cgroup.Limits{})
	c := exec.Command("sh", "-c", "sleep 60 & sleep 60 & echo started; wait")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	names, err := h.List(path.Dir(g.Path()))
	if err != nil || !slices.Equal(names, []string{t.Name()}) {
		t.Errorf("List = %v, %v", names, err)
	}
	go c.Wait()
	for range 2 {
		if err := g.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := g.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if pids, err := g.Processes(); err != nil || len(pids) > 0 || g.Exists() {
		t.Errorf("after Remove: processes %v, %v, exists %v", pids, err, g.Exists())
	}
	if _, err := g.Usage(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Usage of no group = %v", err)
	}
}

func TestAGroupsPathStaysBelowTheRoot(t *testing.T) {
	for _, p := range []string{"", "/", "..", "a/..", "a//b", "/a", "a/", "a b", "a/\x00"} {
		if _, err := (cgroup.Hierarchy{}).Group(p); err == nil {
			t.Errorf("path %q was accepted", p)
		}
	}
}
