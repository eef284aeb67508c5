//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// scarce is a resource of which a process gets no more by its control group: what a host has no more of. The host itself isn't filled up, since others live on it.
type scarce struct {
	controller   string
	fileV1, file string // of the limit
	most         int64  // what the group may have: less than what's in it has, which stays, or next to nothing beside that
	// Where the kernel counts what it did because there was no more, and under which name.
	countV1, count, name string
}

var (
	memoryOf = scarce{
		controller: "memory", fileV1: "memory.limit_in_bytes", file: "memory.max", most: 64 << 10, // what a process has isn't counted when it moves
		countV1: "memory.oom_control", count: "memory.events", name: "oom_kill",
	}
	pidsOf = scarce{
		controller: "pids", fileV1: "pids.max", file: "pids.max", most: 1,
		countV1: "pids.events", count: "pids.events", name: "max",
	}
)

// everyRole are the daemons, PostgreSQL among them.
var everyRole = []instance.Role{instance.API, instance.Edge, instance.NodeAPI, instance.Manager, instance.Host, instance.Postgres}

// TestMemoryRunsOut gives one daemon after the other no more memory. The kernel ends it then, or one of its children, and it comes back by itself.
func TestMemoryRunsOut(t *testing.T) { runOut(t, memoryOf) }

// TestProcessesRunOut gives one daemon after the other no more processes and threads. A Go program ends when it needs a thread and gets none, and comes
// back.
func TestProcessesRunOut(t *testing.T) { runOut(t, pidsOf) }

func runOut(t *testing.T, what scarce) {
	for _, r := range everyRole {
		t.Run(string(r), func(t *testing.T) {
			shortOf(t, platform.client, func(t *testing.T) func() { return what.take(t, r) }, func() map[instance.Role]int { return roles(t) }, r)
		})
	}
}

// take puts a role's process into a group of its own that has no more. It returns what holds that the role has asked for more in vain, or makes it ask, and
// then moves all back that are in the group.
func (s scarce) take(t *testing.T, r instance.Role) (give func()) {
	t.Helper()
	pid := roles(t)[r]
	root, file, count := "/sys/fs/cgroup", s.file, s.count
	if v1 := filepath.Join(root, s.controller); isDir(v1) {
		root, file, count = v1, s.fileV1, s.countV1
	} else if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+s.controller), 0); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, s.groupOf(t, pid))
	group := filepath.Join(root, fmt.Sprintf("space-e2e-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.empty(t, group, home) })
	set(t, group, file, s.most)
	set(t, group, "cgroup.procs", int64(pid))
	return func() {
		denied := func() int { return counter(t, filepath.Join(group, count), s.name) }
		n := denied()
		t.Logf("%s %d while clients went on", s.name, n)
		eventually(t, bootDeadline, "the role has asked for more and got none", func() bool {
			if denied() == 0 {
				press(t, group, r, func() bool { return denied() > 0 })
			}
			return denied() > 0
		})
		s.empty(t, group, home)
	}
}

const (
	pressTime = 40 * time.Second // for one try: longer than the supervisor waits before it starts a process that ends again and again (30 s)
	turn      = 3 * time.Second  // that a process has to ask for more, many times what it takes to start; else it ends, and the next one has its turn
)

// press makes a role need more: PostgreSQL a process for another connection, and a daemon, which may live on what it has for long, all that a new one needs.
func press(t *testing.T, group string, r instance.Role, denied func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pressTime)
	defer cancel()
	if r == instance.Postgres {
		c, err := pgx.Connect(ctx, fmt.Sprintf("host=%s user=space dbname=space", platform.instance.RoleRunDir(instance.Postgres)))
		if err == nil {
			c.Close(ctx)
		}
		return
	}
	procs := filepath.Join(group, "cgroup.procs")
	b, err := os.ReadFile(procs)
	if err != nil {
		t.Fatal(err)
	}
	until := map[int]time.Time{} // of those in the group
	for text := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(text); err == nil {
			until[pid] = time.Time{} // it has had its turn
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; !denied() && ctx.Err() == nil; <-tick.C {
		for _, pid := range processesOfRole(r) {
			end, in := until[pid]
			switch {
			case !in:
				_ = os.WriteFile(procs, []byte(fmt.Sprint(pid)), 0) // it may have ended by itself
				until[pid] = time.Now().Add(turn)
			case time.Now().After(end):
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func processesOfRole(r instance.Role) []int {
	return processes(func(_ int, cmd string) bool {
		return strings.HasSuffix(cmd, " "+string(r)+" --instance "+platform.instance.Name)
	})
}

func set(t *testing.T, group, file string, to int64) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(group, file), []byte(fmt.Sprint(to)), 0); err != nil {
		t.Fatal(err)
	}
}

// counter is one of the numbers of a control group's file.
func counter(t *testing.T, path, name string) (n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if got, _ := fmt.Sscanf(line, name+" %d", &n); got == 1 {
			return n
		}
	}
	t.Fatalf("%s says nothing of %s: %s", path, name, b)
	return 0
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
