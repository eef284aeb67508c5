package execution

import (
	"context"
	"errors"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

// The times of a pause.
const (
	restTimeout = 5 * time.Second  // for a guest to come to rest before it's paused all the same
	goOnTimeout = 20 * time.Second // for a machine to go on, when whoever wanted it to stand still is gone
	callTimeout = 20 * time.Second // for a VMM to do what takes no time, unless it hangs: it may still be writing a snapshot
)

// Pause has an execution's machine stand still; its memory stays, and so do its clients. It returns when that's so, and on file. Pausing a paused one succeeds.
func (t *Table) Pause(ctx context.Context, r space.Route) error {
	return t.turn(ctx, r, space.ExecutionPaused, (*execution).pauseMachine)
}

// Resume has a paused execution's machine run on. It returns when its guest has the time, and that's on file. Resuming one that runs succeeds.
func (t *Table) Resume(ctx context.Context, r space.Route) error {
	return t.turn(ctx, r, space.ExecutionRunning, (*execution).resumeMachine)
}

// turn has an owner bring its execution from running to paused, or back.
func (t *Table) turn(ctx context.Context, r space.Route, to space.ExecutionState, how func(*execution, context.Context) error) error {
	e, err := t.standing(ctx, r)
	if err != nil {
		return err
	}
	err = e.ask(ctx, func(ctx context.Context) error {
		switch s := e.report().State; {
		case s != space.ExecutionRunning && s != space.ExecutionPaused:
			return e.errNoMachine()
		case isSignalled(e.stopping) || isSignalled(e.removal):
			return e.errEnding()
		case s == to:
			return nil
		}
		if err := how(e, ctx); err != nil {
			e.log.Warn("an execution stays as it is", "wanted", to, "err", err)
			if errors.Is(e.orGone(ctx, err), vmm.ErrGone) {
				return space.Errorf(space.CodeExecutionLost, "the sandbox's machine ended before it was %s", to)
			}
			return err
		}
		e.cfg.Changed()
		return nil
	})
	if err != nil && t.ctx.Err() != nil {
		return errStopping()
	}
	return err
}

// pauseMachine lets the guest come to rest and stops the machine. A guest that doesn't come to rest is stopped all the same. Until the state is on file
// the machine runs on after a crash.
func (e *execution) pauseMachine(ctx context.Context) error {
	quiet := e.comeToRest(ctx, restTimeout, machine.Freeze) == nil
	e.sessions.Refuse(errPaused())
	e.unlink()
	err := e.pauseNow(ctx)
	if err == nil {
		err = e.change(func(r *record) { r.State, r.Since, r.Quiet = space.ExecutionPaused, time.Now(), quiet })
	}
	if err != nil {
		e.goOn(ctx)
	}
	return err
}

// resumeMachine lets the machine run on, whose guest gets the time before its processes do. Until the state is on file the machine is paused after a crash.
func (e *execution) resumeMachine(ctx context.Context) error {
	resuming, cancel := context.WithTimeout(ctx, callTimeout)
	err := e.machine.Resume(resuming)
	cancel()
	if err != nil {
		return err
	}
	if err := e.change(func(r *record) { r.State, r.Since, r.Quiet = space.ExecutionRunning, time.Now(), false }); err != nil {
		e.backTo(ctx, space.ExecutionPaused)
		return err
	}
	e.goOn(ctx)
	return nil
}

// pauseNow stops the machine. One that hangs holds its owner up for a time only: it's to be removed by him.
func (e *execution) pauseNow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return e.machine.Pause(ctx)
}

// goOn lets the machine run on and greets its guest, whose processes stand still until then. It does so though ctx has ended. What can't be done now is tried
// again by whoever watches the execution.
func (e *execution) goOn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goOnTimeout)
	defer cancel()
	e.unlink()
	e.sessions.Refuse(nil)
	if err := e.machine.Resume(ctx); err != nil {
		e.log.Warn("a machine doesn't go on; will try again", "err", err)
		return
	}
	l, err := e.greet(ctx, false)
	if err != nil {
		e.log.Warn("a guest that goes on doesn't answer; will try again", "err", err)
		return
	}
	e.link = l
	e.sessions.Use(l)
}

// unlink lets go of the link: what the guest says from now on waits in it.
func (e *execution) unlink() {
	if e.link != nil {
		e.sessions.Use(nil)
		e.link.Close()
		e.link = nil
	}
}

// errPaused is why nothing begins in a paused sandbox.
func errPaused() *space.Error {
	return space.Errorf(space.CodeConflict, "the sandbox is paused: resume it first")
}
