// Package monitor is what drivers share: a VMM's process seen from outside, its end, its death, its sockets and what it says.
//
// It knows no VMM. Its invariant: a connection that Dial returns leads to the process that was named, and a Kill hits that one or none.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// deathNotice is how long Explain waits for the news of a death: a dying process closes its sockets a moment before it's gone.
const deathNotice = time.Second

// Process is a running VMM. Its methods may be called from any goroutine.
type Process struct {
	id    proc.ID
	uid   int
	pidfd *os.File
	done  chan struct{} // closed when the process is gone
	let   func()        // ends the watch
	exit  <-chan unix.WaitStatus
	// ending says how the process ended that is gone.
	ending func() string
	watch  sync.WaitGroup // the watch's goroutine
}

// Adopt takes over a process that a Starter has just started on this boot of the host, and its pidfd.
func Adopt(p vmm.Process, uid int, bootID string) *Process {
	return watched(proc.ID{PID: p.PID, StartTime: p.StartTime, BootID: bootID}, uid, p.PIDFD, p.Exit)
}

// Find finds the process of a handle; vmm.ErrGone if it isn't there any more, or is another one's.
func Find(h vmm.Handle) (*Process, error) {
	id := proc.ID{PID: h.PID, StartTime: h.StartTime, BootID: h.BootID}
	pidfd, err := proc.Open(id)
	if errors.Is(err, proc.ErrGone) {
		return nil, fmt.Errorf("find process %d: %w", h.PID, vmm.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", h.PID, err)
	}
	if uid, err := proc.UID(h.PID); err != nil || uid != h.UID {
		pidfd.Close()
		if err == nil || errors.Is(err, proc.ErrGone) {
			return nil, fmt.Errorf("find process %d of uid %d: %w", h.PID, h.UID, vmm.ErrGone)
		}
		return nil, fmt.Errorf("find process %d: %w", h.PID, err)
	}
	return watched(id, h.UID, pidfd, nil), nil
}

func watched(id proc.ID, uid int, pidfd *os.File, exit <-chan unix.WaitStatus) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{id: id, uid: uid, pidfd: pidfd, done: make(chan struct{}), let: cancel, exit: exit}
	p.ending = sync.OnceValue(p.howEnded)
	p.watch.Go(func() {
		if proc.Wait(ctx, pidfd) == nil {
			close(p.done)
		}
	})
	return p
}

// PID is the process's id.
func (p *Process) PID() int { return p.id.PID }

// UID is the process's user, and group.
func (p *Process) UID() int { return p.uid }

// Handle is what finds the process again.
func (p *Process) Handle(driver string, details map[string]string) vmm.Handle {
	return vmm.Handle{Driver: driver, PID: p.id.PID, StartTime: p.id.StartTime, BootID: p.id.BootID, UID: p.uid, Details: details}
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Gone tells whether the process has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.done:
		return true
	default:
		ended, err := proc.Ended(p.pidfd)
		return err == nil && ended
	}
}

// Signal sends the process a signal; vmm.ErrGone if it has ended.
func (p *Process) Signal(s unix.Signal) error {
	err := proc.Signal(p.pidfd, s)
	if errors.Is(err, proc.ErrGone) || err == nil && p.Gone() {
		return vmm.ErrGone
	}
	return err
}

// Kill ends the process and returns when it's gone; it may be gone already.
func (p *Process) Kill(ctx context.Context) error {
	if p.Gone() {
		return nil
	}
	return proc.Kill(ctx, p.pidfd, vmm.KillGrace)
}

// Explain returns the error of an operation on the process, vmm.ErrGone if that is why. broken says that the error is the end of a connection:
// then the news of the process's death is waited for.
func (p *Process) Explain(err error, broken bool) error {
	if err == nil {
		return nil
	}
	if broken {
		p.await(deathNotice)
	}
	if p.Gone() {
		return fmt.Errorf("%w: %w", vmm.ErrGone, err)
	}
	return err
}

// LastWords says how the process ended, if it has, and what it printed last, which said keeps; nil: nobody listened.
func (p *Process) LastWords(said *Said) string {
	var words []string
	printed := ""
	if said != nil {
		printed = said.Last()
	}
	if p.Gone() {
		words = append(words, p.ending())
		if said != nil {
			printed = said.Drain()
		}
	}
	if printed != "" {
		words = append(words, "it printed: "+printed)
	}
	return strings.Join(words, "; ")
}

// howEnded says how a process ended that is gone. It's called once, since there's one who is told.
func (p *Process) howEnded() string {
	t := time.NewTimer(drainLimit)
	defer t.Stop()
	select {
	case s := <-p.exit:
		if s.Signaled() {
			return "the VMM was ended by " + unix.SignalName(s.Signal())
		}
		return fmt.Sprintf("the VMM ended with status %d", s.ExitStatus())
	case <-t.C:
		return "the VMM has ended, nobody knows how"
	}
}

func (p *Process) await(limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}

// Close lets go of the process, which goes on.
func (p *Process) Close() error {
	p.let()
	p.watch.Wait()
	return p.pidfd.Close()
}
