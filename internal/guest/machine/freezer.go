package machine

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// freezeLimit is how long Freeze waits. A process in the middle of a system call that can't be interrupted takes its time; the machine is
// stopped afterwards anyway.
const freezeLimit = time.Second

// freezePoll is the time between two looks at whether all are frozen.
const freezePoll = time.Millisecond

// Freezer stops and starts all processes of a version 2 cgroup.
type Freezer struct {
	Cgroup string // its directory

	frozen atomic.Bool
}

// Freeze returns when all processes are stopped, or after a second.
func (f *Freezer) Freeze() error {
	f.frozen.Store(true)
	if err := f.set("1"); err != nil {
		return err
	}
	for until := time.Now().Add(freezeLimit); time.Now().Before(until); time.Sleep(freezePoll) {
		events, err := os.ReadFile(path.Join(f.Cgroup, "cgroup.events"))
		if err != nil {
			return fmt.Errorf("freeze the sessions: %w", err)
		}
		if strings.Contains(string(events), "frozen 1") {
			return nil
		}
	}
	return nil
}

// Thaw lets all processes go on. It costs nothing if they aren't frozen.
func (f *Freezer) Thaw() error {
	if !f.frozen.Swap(false) {
		return nil
	}
	return f.set("0")
}

func (f *Freezer) set(state string) error {
	if err := os.WriteFile(path.Join(f.Cgroup, "cgroup.freeze"), []byte(state), 0); err != nil {
		return fmt.Errorf("freeze or thaw the sessions: %w", err)
	}
	return nil
}
