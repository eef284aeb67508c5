package execution

import (
	"context"
	"errors"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
)

// How long a call waits for the guest, and how many there are.
const (
	linkTimeout = 20 * time.Second // for its turn, and for the guest to be reachable
	lossTime    = 2 * time.Second  // after its link broke, to see whether its machine is gone
	maxCalls    = 40               // at one time: a link's streams are for the sessions above all
)

// Guest calls f with a link to the guest of an execution that runs. When the link breaks meanwhile, the error is execution_lost if the machine
// is gone, and unavailable otherwise: nobody knows then how much of it the guest has done.
func (t *Table) Guest(ctx context.Context, r space.Route, f func(*link.Link) error) error {
	e, err := t.find(r)
	if err != nil {
		return err
	}
	l, done, err := e.reach(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = f(l)
	if err == nil || !isSignalled(l.Done()) || errors.As(err, new(*space.Error)) {
		return err
	}
	return e.explain(err)
}

// reach returns the link to the guest once there is one and it's the caller's turn, who calls done.
func (e *execution) reach(ctx context.Context) (_ *link.Link, done func(), err error) {
	sessions, err := e.openSessions()
	if err != nil {
		return nil, nil, err
	}
	if isSignalled(e.ended) {
		return nil, nil, e.endError()
	}
	if e.report().State == space.ExecutionPaused {
		return nil, nil, errPaused()
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	select {
	case e.calls <- struct{}{}:
		done = func() { <-e.calls }
	case <-ctx.Done():
		return nil, nil, space.Errorf(space.CodeUnavailable, "%d calls are at work in the sandbox; try again", maxCalls)
	}
	l, err := sessions.Link(ctx)
	if err == nil {
		return l, done, nil
	}
	done()
	if isSignalled(e.ended) {
		return nil, nil, e.endError()
	}
	return nil, nil, space.Errorf(space.CodeUnavailable, "the sandbox's guest can't be reached right now; try again: %w", err)
}

// explain says what a broken link means.
func (e *execution) explain(broken error) error {
	t := time.NewTimer(lossTime)
	defer t.Stop()
	select {
	case <-e.ended:
		return e.endError()
	case <-e.removal:
		return e.endError()
	case <-t.C:
		return space.Errorf(space.CodeUnavailable, "the connection to the sandbox's guest broke off; try again: %w", broken)
	}
}

// endError says why the execution doesn't run.
func (e *execution) endError() error {
	switch r := e.report(); {
	case r.Err != nil:
		return r.Err
	case r.State == space.ExecutionSuspended:
		return errSuspended()
	case r.State == space.ExecutionStopped:
		return space.Errorf(space.CodeConflict, "execution %s was stopped", e.route.Execution)
	}
	return space.Errorf(space.CodeExecutionLost, "execution %s doesn't run any more", e.route.Execution)
}
