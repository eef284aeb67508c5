package sandboxes

import (
	"context"
	"errors"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// What a stop gives processes between SIGTERM and SIGKILL.
const (
	DefaultGrace = 10 * time.Second // as `docker stop` does
	MaxGrace     = 5 * time.Minute
)

// Stop writes that a sandbox's machine is to end and its disk to be kept, and returns the operation; of one that is being stopped or is
// stopped, the operation that did it. The processes have a grace between SIGTERM and SIGKILL, of the stop that was first. Conflict if it doesn't run or another operation is under way.
func (s *Sandboxes) Stop(ctx context.Context, project, id string, grace time.Duration) (operation string, err error) {
	if grace < 0 || grace > MaxGrace {
		return "", space.FieldErrorf("grace", "is %s: at most %.0fs are allowed", grace, MaxGrace.Seconds())
	}
	return s.change(ctx, project, id, func(now record.Situation, operation string) (record.Change, error) {
		return stop(now, operation, grace)
	})
}

// Start writes that a stopped or lost sandbox is to run from its disk, in a new execution, and returns the operation; of one that is being
// started or runs, the operation that did it. Conflict if it has no disk or another operation is under way, capacity_exhausted if its node
// has no room.
func (s *Sandboxes) Start(ctx context.Context, project, id string) (operation string, err error) {
	return s.change(ctx, project, id, func(now record.Situation, operation string) (record.Change, error) {
		return start(now, operation, space.NewID(space.PrefixExecution), time.Now())
	})
}

// Pause writes that a sandbox's machine is to stand still, and returns the operation; of one that is being paused or is paused, the operation that did it.
// Its memory stays in its node's, and isn't durable. Conflict if it doesn't run or another operation is under way.
func (s *Sandboxes) Pause(ctx context.Context, project, id string) (operation string, err error) {
	return s.change(ctx, project, id, pause)
}

// Resume writes that a paused sandbox is to run on, and returns the operation; of one that is being resumed or runs, the operation that did it. Conflict if
// it isn't paused or another operation is under way, quota_exceeded if the project's quota has no processor for it.
func (s *Sandboxes) Resume(ctx context.Context, project, id string) (operation string, err error) {
	return s.change(ctx, project, id, resume)
}

// Suspend writes that a sandbox's memory, devices and disk are to be kept in a snapshot and its machine to end, and returns the operation; of one that is
// being suspended or is suspended, the operation that did it. Conflict if it has no machine or another operation is under way.
func (s *Sandboxes) Suspend(ctx context.Context, project, id string) (operation string, err error) {
	return s.change(ctx, project, id, func(now record.Situation, operation string) (record.Change, error) {
		return suspend(now, operation, space.NewID(space.PrefixSnapshot))
	})
}

// Restore writes that a suspended sandbox is to go on in a new execution, and returns the operation; of one that is being restored or runs, the operation that
// did it. A cold one boots from the disk alone. Conflict if it isn't suspended or another operation is under way, capacity_exhausted if its node has no room.
func (s *Sandboxes) Restore(ctx context.Context, project, id string, cold bool) (operation string, err error) {
	return s.change(ctx, project, id, func(now record.Situation, operation string) (record.Change, error) {
		return restore(now, operation, space.NewID(space.PrefixExecution), cold, time.Now())
	})
}

// Delete writes that a sandbox is to go, in whatever state it is, and returns the operation; repeated, the same one. An operation that is
// under way fails with a conflict.
func (s *Sandboxes) Delete(ctx context.Context, project, id string) (operation string, err error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	operation = space.NewID(space.PrefixOperation)
	c, err := s.store.DeleteSandbox(ctx, project, id, func(now record.Situation) (record.Change, error) { return remove(now, operation) })
	return s.changed(id, c, err)
}

// Expire does what the lifetime says of a sandbox whose deadline was found to have passed, and reports whether it did: not if the lifetime is
// another one by now. Conflict if it can't be done as the sandbox is now.
func (s *Sandboxes) Expire(ctx context.Context, e record.Expiring) (done bool, err error) {
	return s.due(ctx, e.Project, e.ID, func(now record.Situation, operation string) (record.Change, error) {
		return expire(now, operation, e.Lifetime, time.Now())
	})
}

// EndIdle suspends or deletes a sandbox that was found to have been idle for as long as it says, and reports whether it did: not if something was done with it
// since. Conflict if it can't be done as the sandbox is now.
func (s *Sandboxes) EndIdle(ctx context.Context, i record.Idling) (done bool, err error) {
	return s.due(ctx, i.Project, i.ID, func(now record.Situation, operation string) (record.Change, error) {
		return idle(now, operation, i, time.Now())
	})
}

// Relieve suspends a sandbox that was found to be paused, for its memory, and reports whether it did: not if it isn't any more. Conflict if another operation is
// under way.
func (s *Sandboxes) Relieve(ctx context.Context, project, id string) (done bool, err error) {
	return s.due(ctx, project, id, relieve)
}

// Roll writes that a sandbox that runs is to take a snapshot of itself, and reports whether it is: not if it was found to be due and isn't any more, because another
// process was quicker. Conflict if it doesn't run, or does something else at the moment.
func (s *Sandboxes) Roll(ctx context.Context, project, id string) (taken bool, err error) {
	return s.due(ctx, project, id, func(now record.Situation, _ string) (record.Change, error) {
		return roll(now, space.NewID(space.PrefixSnapshot), time.Now())
	})
}

// due does what was found to be due of a sandbox, if it still is, and reports whether it did.
func (s *Sandboxes) due(ctx context.Context, project, id string, decide func(record.Situation, string) (record.Change, error)) (done bool, err error) {
	_, err = s.change(ctx, project, id, decide)
	if errors.Is(err, errNotDue) || space.CodeOf(err) == space.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

// change does what a verb decides.
func (s *Sandboxes) change(ctx context.Context, project, id string, decide func(record.Situation, string) (record.Change, error)) (string, error) {
	return s.changeOnce(ctx, project, id, record.Request{}, decide)
}

// changeOnce does the same for a request that may be repeated with its Idempotency-Key.
func (s *Sandboxes) changeOnce(
	ctx context.Context, project, id string, r record.Request, decide func(record.Situation, string) (record.Change, error),
) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	operation := space.NewID(space.PrefixOperation)
	c, err := s.store.ChangeSandbox(ctx, project, id, operation, r, func(now record.Situation) (record.Change, error) { return decide(now, operation) })
	return s.changed(id, c, err)
}

// changed wakes whom a change concerns: the node, and those who wait for an operation that was superseded.
func (s *Sandboxes) changed(id string, c record.Changed, err error) (operation string, _ error) {
	if err != nil {
		return "", err
	}
	s.bell.Ring(append(c.Ended, wake.Node(c.Node), id)...)
	return c.Operation, nil
}
