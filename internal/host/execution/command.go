package execution

import (
	"context"

	space "github.com/space-platform/space"
)

// maxCommands is how many commands wait for an execution's owner.
const maxCommands = 16

// command is something that the owner is to do while there's a machine, or a disk.
type command struct {
	do     func(ctx context.Context) // which tells its caller how it went
	refuse func(why error)           // instead: the owner does nothing any more
}

// tell hands a command to the owner.
func (e *execution) tell(c command) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deaf != nil {
		return e.deaf
	}
	select {
	case e.commands <- c:
		return nil
	default:
		return space.Errorf(space.CodeUnavailable, "%d orders wait for execution %s already; try again", maxCommands, e.route.Execution)
	}
}

// ask has the owner do something and waits for its outcome.
func (e *execution) ask(ctx context.Context, do func(ctx context.Context) error) error {
	done := make(chan error, 1)
	err := e.tell(command{do: func(ctx context.Context) { done <- do(ctx) }, refuse: func(why error) { done <- why }})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return space.Errorf(space.CodeTimeout, "execution %s isn't as far yet: %w", e.route.Execution, context.Cause(ctx))
	}
}

// obey does what it's told until ctx ends, or the execution's machine isn't there any more that was there before.
func (e *execution) obey(ctx context.Context) {
	for {
		select {
		case c := <-e.commands:
			e.heed(ctx, c)
		case <-ctx.Done():
			return
		}
	}
}

// heed does what the owner is told, unless its time is over: then it may not even have found the machine.
func (e *execution) heed(ctx context.Context, c command) {
	switch {
	case ctx.Err() == nil:
		c.do(ctx)
	case e.table.ctx.Err() != nil:
		c.refuse(errStopping())
	default:
		c.refuse(e.errEnding())
	}
}

// hangUp refuses what waits for the owner, and what comes.
func (e *execution) hangUp(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf = why
	for {
		select {
		case c := <-e.commands:
			c.refuse(why)
		default:
			return
		}
	}
}

// standing returns the execution of a route once it runs, or has run.
func (t *Table) standing(ctx context.Context, r space.Route) (*execution, error) {
	e, err := t.find(r)
	if space.CodeOf(err) == space.CodeExecutionLost {
		return nil, space.Errorf(space.CodeNotFound, "the node has nothing of execution %s", r.Execution)
	}
	if err != nil {
		return nil, err
	}
	return e, e.await(ctx, e.settled)
}

// errNoMachine says that there's nothing to pause, resume or suspend.
func (e *execution) errNoMachine() error {
	return space.Errorf(space.CodeExecutionLost, "execution %s has no machine: it's %s", e.route.Execution, e.report().State)
}

// errEnding says that it's too late for anything else.
func (e *execution) errEnding() error {
	return space.Errorf(space.CodeConflict, "execution %s is being stopped or removed", e.route.Execution)
}
