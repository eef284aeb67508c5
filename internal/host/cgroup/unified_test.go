package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestV2OnTheKernelsTree uses a real cgroup2 tree, which every kernel mounts, for what works without controllers: a process is born in a
// group, is listed, killed as a group, and the group is removed.
func TestV2OnTheKernelsTree(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(root, 0) })
	h := Hierarchy{version: 2, roots: map[string]string{"": root}}
	g, err := h.Group(fmt.Sprintf("space-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, g.Path()), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Kill(context.Background()); g.Remove(context.Background()) })
	dir, err := g.Dir()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if pids, err := g.Processes(); err != nil || !slices.Equal(pids, []int{c.Process.Pid}) {
		t.Errorf("Processes = %v, %v, want the one that was born there", pids, err)
	}
	for range 2 {
		if err := g.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("the process ended by itself")
	}
	for range 2 {
		if err := g.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if g.Exists() {
		t.Error("the group is still there")
	}
}
