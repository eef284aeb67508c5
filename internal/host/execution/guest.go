package execution

import (
	"context"
	"errors"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
)

// How long a call waits for the guest.
const (
	linkTimeout = 20 * time.Second // to be reachable
	lossTime    = 2 * time.Second  // after its link broke, to see whether its machine is gone
)

// Guest calls f with a link to the guest of an execution that runs. When the link breaks meanwhile, the error is execution_lost if the machine
// is gone, and unavailable otherwise: nobody knows then how much of it the guest has done.
func (t *Table) Guest(ctx context.Context, r space.Route, f func(*link.Link) error) error {
	e, err := t.find(r)
	if err != nil {
		return err
	}
	l, err := e.reach(ctx)
	if err != nil {
		return err
	}
	err = f(l)
	if err == nil || !isSignalled(l.Done()) || errors.As(err, new(*space.Error)) {
		return err
	}
	return e.explain(err)
}

// reach returns the link to the guest once there is one.
func (e *execution) reach(ctx context.Context) (*link.Link, error) {
	sessions, err := e.openSessions()
	if err != nil {
		return nil, err
	}
	if isSignalled(e.ended) {
		return nil, e.endError()
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	l, err := sessions.Link(ctx)
	switch {
	case err == nil:
		return l, nil
	case isSignalled(e.ended):
		return nil, e.endError()
	}
	return nil, space.Errorf(space.CodeUnavailable, "the sandbox's guest can't be reached right now; try again: %w", err)
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
	case r.State == space.ExecutionStopped:
		return space.Errorf(space.CodeConflict, "execution %s was stopped", e.route.Execution)
	}
	return space.Errorf(space.CodeExecutionLost, "execution %s doesn't run any more", e.route.Execution)
}
