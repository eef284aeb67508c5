package process

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How processes are ended.
const (
	MaxGrace  = 5 * time.Minute      // that they may have
	killLimit = 5 * time.Second      // for killed ones to be gone: a system call that can't be interrupted takes its time
	endPoll   = 5 * time.Millisecond // between two looks at whether any is left
)

// Terminate ends all processes of the machine, those that were left running in the background too: by SIGTERM, and SIGHUP for those in a
// terminal, which shells don't ignore. What is left after the grace is killed. It returns when none is left, or when ctx ends, and reports whether
// some had to be killed. Sessions that end from now on say that they were stopped, and none starts any more.
func (t *Table) Terminate(ctx context.Context, grace time.Duration) (killed bool) {
	t.stopping.Store(true)
	if grace > 0 {
		t.signalAll(syscall.SIGTERM)
		t.signal(syscall.SIGHUP, func(s *Session) bool { return s.tty != nil })
		t.signalAll(syscall.SIGCONT) // a stopped one gets its signals only when it goes on
	}
	if t.reaper.childless(ctx, min(grace, MaxGrace)) || ctx.Err() != nil {
		return false
	}
	t.signalAll(syscall.SIGKILL)
	t.reaper.childless(ctx, killLimit)
	return true
}

// signalAll sends a signal to every process but this one; one that isn't a machine's first reaches the groups of its commands only.
func (t *Table) signalAll(sig syscall.Signal) {
	if t.attr.First {
		syscall.Kill(-1, sig)
		return
	}
	t.signal(sig, func(*Session) bool { return true })
}

// childless reports whether this process has no child left, which is waited for. Who is orphaned becomes its child, so there's no descendant then
// either.
func (r *Reaper) childless(ctx context.Context, within time.Duration) bool {
	limit := time.NewTimer(within)
	defer limit.Stop()
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.ECHILD {
			return true
		}
		select {
		case <-poll.C:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
