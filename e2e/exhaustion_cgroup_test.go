//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// scarce is a resource of which a process gets no more by its control group: what a host has no more of. The host itself isn't filled up, since others live on it.
type scarce struct {
	controller   string
	fileV1, file string              // of the limit
	most         func(pid int) int64 // what the process may have: next to nothing beside what it has
}

var (
	memoryOf = scarce{"memory", "memory.limit_in_bytes", "memory.max", func(int) int64 { return 64 << 10 }} // what it has isn't counted when it moves
	pidsOf   = scarce{"pids", "pids.max", "pids.max", func(pid int) int64 { n, _ := statusInt(pid, "Threads"); return int64(n) }}
)

// everyRole are the daemons, PostgreSQL among them.
var everyRole = []instance.Role{instance.API, instance.Edge, instance.NodeAPI, instance.Manager, instance.Host, instance.Postgres}

// TestMemoryRunsOut gives one daemon after the other no more memory. The kernel ends it then, or one of its children, and it comes back by itself.
func TestMemoryRunsOut(t *testing.T) { runOut(t, memoryOf) }

// TestProcessesRunOut gives one daemon after the other no more processes and threads. A Go program ends when it needs a thread and gets none, and comes
// back.
func TestProcessesRunOut(t *testing.T) { runOut(t, pidsOf) }

func runOut(t *testing.T, what scarce) {
	missed := 0
	for _, r := range everyRole {
		t.Run(string(r), func(t *testing.T) {
			shortOf(t, platform.client, func(t *testing.T) func() { return what.take(t, roles(t)[r], &missed) }, func() map[instance.Role]int { return roles(t) }, r)
		})
	}
	if missed == 0 {
		t.Error("nobody has asked for more, so nothing was short")
	}
}

// take puts a process into a group of its own that has no more, and returns what moves all back that are in it then, and counts how often more was asked
// for.
func (s scarce) take(t *testing.T, pid int, missed *int) (give func()) {
	t.Helper()
	root, file := "/sys/fs/cgroup", s.file
	if v1 := filepath.Join(root, s.controller); isDir(v1) {
		root, file = v1, s.fileV1
	} else if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+s.controller), 0); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, s.groupOf(t, pid))
	group := filepath.Join(root, fmt.Sprintf("space-e2e-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.empty(t, group, home) })
	give = func() {
		n := s.denied(t, group)
		t.Logf("%d times more was asked for", n)
		*missed += n
		s.empty(t, group, home)
	}
	for _, w := range []struct{ path, value string }{
		{filepath.Join(group, file), fmt.Sprint(s.most(pid))}, {filepath.Join(group, "cgroup.procs"), fmt.Sprint(pid)},
	} {
		if err := os.WriteFile(w.path, []byte(w.value), 0); err != nil {
			t.Fatal(err)
		}
	}
	return give
}

// denied is how often a group has asked for more than it may have.
func (s scarce) denied(t *testing.T, group string) (n int) {
	t.Helper()
	for _, name := range []string{s.controller + ".failcnt", s.controller + ".events"} {
		b, err := os.ReadFile(filepath.Join(group, name))
		if err != nil {
			continue
		}
		if fmt.Sscan(string(b), &n); n > 0 {
			return n
		}
		for line := range strings.Lines(string(b)) {
			if got, _ := fmt.Sscanf(line, "max %d", &n); got == 1 {
				return n
			}
		}
	}
	return n
}

// empty moves all processes of a group into another one, and removes it. It may be repeated.
func (s scarce) empty(t *testing.T, group, into string) {
	t.Helper()
	eventually(t, callDeadline, "the group is empty", func() bool {
		b, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) {
			return true
		}
		for _, pid := range strings.Fields(string(b)) {
			_ = os.WriteFile(filepath.Join(into, "cgroup.procs"), []byte(pid), 0) // it may have ended
		}
		return err == nil && unix.Rmdir(group) == nil
	})
}

// groupOf is the group in which a process is, below the hierarchy's root.
func (s scarce) groupOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (f[1] == s.controller || f[1] == "") {
			return f[2]
		}
	}
	t.Fatalf("process %d is in no group of controller %s: %s", pid, s.controller, b)
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
