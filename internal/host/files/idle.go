package files

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
)

// How long nothing may move in a call.
const (
	// silence is after how long the guest is asked whether it's there.
	silence = 20 * time.Second
	// aliveTimeout is how long it has to say so, under emulation on a loaded machine.
	aliveTimeout = 10 * time.Second
	// doTimeout ends a call of a guest that's there: it may write out a large file before its last answer, under emulation, or remove a tree.
	doTimeout = 3 * time.Minute
)

// The ends of a call in which nothing moves.
var (
	errIdle   = space.Errorf(space.CodeTimeout, "nothing of the call has moved for %s", doTimeout)
	errWedged = space.Errorf(space.CodeTimeout, "the sandbox's guest doesn't answer any more: nothing of the call has moved for %s", silence+aliveTimeout)
)

// idle knows when something of a call has moved last.
type idle struct {
	last atomic.Int64 // in nanoseconds of the wall clock; never: nothing need move
}

const never = 0

// moved says that something has.
func (i *idle) moved() { i.last.Store(time.Now().UnixNano()) }

// pause says that nothing need move until something has.
func (i *idle) pause() { i.last.Store(never) }

// watch returns why the call has to end, or nil when ctx has ended. A guest that is silent is asked whether it's there.
func (i *idle) watch(ctx context.Context, ask func(context.Context) error) error {
	answered := time.Now()
	for {
		last := i.last.Load()
		if last == never {
			answered = time.Now()
		}
		quiet := time.Since(later(time.Unix(0, last), answered))
		switch {
		case quiet < silence:
			if !sleep(ctx, silence-quiet) {
				return nil
			}
		case time.Since(time.Unix(0, last)) >= doTimeout:
			return errIdle
		default:
			err := ask(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil && i.last.Load() == last {
				return errWedged
			}
			answered = time.Now()
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleep waits, and reports false when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isThere asks a guest for its figures, which needs neither its disk nor anybody's memory. One that has no room for another call is there.
func isThere(ctx context.Context, l *link.Link) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	err := machine.Ask(ctx, l, &guestv1.Call{Call: &guestv1.Call_Measure{Measure: &guestv1.Measure{}}}, new(sandboxv1.GuestUsage))
	if errors.Is(err, link.ErrTooMany) {
		return nil
	}
	return err
}
