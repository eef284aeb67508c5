package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// freezeLimit is how long Freeze waits. A process in the middle of a system call that can't be interrupted takes its time; it runs no code of
// its own any more, and stops before it would.
const freezeLimit = time.Second

// freezePoll is the time between two looks at whether all are frozen.
const freezePoll = time.Millisecond

// kernelThread is PF_KTHREAD, a bit of the flags in /proc/PID/stat.
const kernelThread = 0x00200000

// Freezer stops and starts all processes of a machine but its first one, by the machine's version 2 cgroups. A process that its user has moved to
// another group, as a container runtime does, is stopped there; one in the root group, or in the agent's, is brought back to the sessions'.
type Freezer struct {
	Root     *os.Root // the hierarchy, open from the start: whatever is mounted over it
	Agent    string   // name of the group that is never frozen, below it
	Sessions string   // name of the group in which processes begin

	mu     sync.Mutex
	frozen []string     // the groups that Freeze has frozen: those only are thawed
	known  map[int]bool // what Look has found, for one Freeze soon after it
	looked time.Time
}

// lookLasts is for how long Freeze goes by what Look has found: a number of a process comes again after tens of thousands of others.
const lookLasts = 10 * time.Second

// Look does what takes long of a Freeze that follows soon, while all processes go on: it tells apart who isn't to be stopped, and reads what there is of the
// groups. What it can't read Freeze reads again, and says so.
func (f *Freezer) Look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = nil
	known := map[int]bool{}
	if _, err := f.gather(known); err != nil {
		return
	}
	groups, err := f.groups()
	if err != nil {
		return
	}
	for _, g := range groups {
		f.has(g, "cgroup.freeze", "1")
		f.has(g, "cgroup.events", "frozen 1")
	}
	f.known, f.looked = known, time.Now()
}

// whoIsKnown returns what a Look has found lately, once, or looks itself.
func (f *Freezer) whoIsKnown() (map[int]bool, error) {
	known := f.known
	if f.known = nil; known != nil && time.Since(f.looked) < lookLasts {
		return known, nil
	}
	known = map[int]bool{}
	_, err := f.gather(known)
	return known, err
}

// Freeze returns when all processes are stopped, or after a second. Processes may move or make groups until they are stopped, so it looks again
// until nothing is new.
func (f *Freezer) Freeze() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, err := f.whoIsKnown() // while they still run: it takes a while
	if err != nil {
		return err
	}
	for until := time.Now().Add(freezeLimit); ; time.Sleep(freezePoll) {
		still, err := f.pass(known)
		if err != nil {
			return fmt.Errorf("freeze all processes: %w", err)
		}
		if still || time.Now().After(until) {
			return nil
		}
	}
}

// pass freezes what isn't frozen yet, and tells whether there was nothing to do.
func (f *Freezer) pass(known map[int]bool) (still bool, err error) {
	moved, err := f.gather(known)
	if err != nil {
		return false, err
	}
	groups, err := f.groups()
	if err != nil {
		return false, err
	}
	still = !moved
	for _, g := range groups {
		if !slices.Contains(f.frozen, g) && !f.has(g, "cgroup.freeze", "1") { // its user hasn't frozen it either
			if err := f.set(g, "1"); errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return false, err
			}
			f.frozen = append(f.frozen, g)
		}
		still = still && f.has(g, "cgroup.events", "frozen 1")
	}
	return still, nil
}

// Thaw lets all processes go on that Freeze has stopped. It costs nothing if there are none.
func (f *Freezer) Thaw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, g := range f.frozen {
		if e := f.set(g, "0"); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	f.frozen = f.frozen[:0]
	if err != nil {
		return fmt.Errorf("let all processes go on: %w", err)
	}
	return nil
}

// groups are those whose processes are to be stopped: at the top, since what is below stops with it, and below the agent's.
func (f *Freezer) groups() ([]string, error) {
	var groups []string
	for _, parent := range []string{".", f.Agent} {
		entries, err := fs.ReadDir(f.Root.FS(), parent)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(parent, e.Name()); e.IsDir() && name != f.Agent {
				groups = append(groups, name)
			}
		}
	}
	return groups, nil
}

// gather moves processes that are in a group that can't be frozen to the sessions', and tells whether there were any. known are those that are to
// stay where they are: the first process, and the kernel's threads.
func (f *Freezer) gather(known map[int]bool) (moved bool, err error) {
	for _, group := range []string{".", f.Agent} {
		b, err := f.Root.ReadFile(path.Join(group, "cgroup.procs"))
		if err != nil {
			return false, fmt.Errorf("list the processes of a group: %w", err)
		}
		for line := range bytes.Lines(b) {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
			if err != nil || known[pid] {
				continue
			}
			if pid == os.Getpid() || isKernels(pid) {
				known[pid] = true
				continue
			}
			// It may have ended since.
			moved = f.Root.WriteFile(path.Join(f.Sessions, "cgroup.procs"), line, 0) == nil || moved
		}
	}
	return moved, nil
}

// isKernels tells whether a process is a thread of the kernel. One that isn't there any more isn't: another may have its number next.
func isKernels(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name is in parentheses and may hold anything
	if len(after) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(after[6]), 10, 64)
	return err == nil && flags&kernelThread != 0
}

// has tells whether a file of a group has a line.
func (f *Freezer) has(group, file, line string) bool {
	b, err := f.Root.ReadFile(path.Join(group, file))
	return errors.Is(err, fs.ErrNotExist) || slices.Contains(strings.Split(strings.TrimSpace(string(b)), "\n"), line)
}

func (f *Freezer) set(group, state string) error {
	return f.Root.WriteFile(path.Join(group, "cgroup.freeze"), []byte(state), 0)
}
