package sandboxes

import (
	"errors"
	"slices"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/placement"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
)

// What a verb does is decided here, by what is so at the moment, and nowhere else. Two verbs at once are decided one after the other: the
// second one finds the first one's operation running.

// stop decides about a stop whose operation would have that id.
func stop(now record.Situation, operation string, grace time.Duration) (record.Change, error) {
	state := State(now.Sandbox)
	switch same, err := underWay(now, record.StopSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateStopped:
		return record.Change{Kind: record.StopSandbox, Done: true, Operation: operation}, nil
	case !state.CanBecome(space.StateStopping):
		return record.Change{}, unfit(now.Sandbox, "runs or is paused can be stopped")
	}
	return record.Change{Kind: record.StopSandbox, Operation: operation, Desired: record.DesiredStopped, Grace: grace}, nil
}

// start decides about a start at a time, whose operation and execution would have those ids.
func start(now record.Situation, operation, execution string, at time.Time) (record.Change, error) {
	box, state := now.Sandbox, State(now.Sandbox)
	switch same, err := underWay(now, record.StartSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateRunning:
		return record.Change{Kind: record.StartSandbox, Done: true, Operation: operation}, nil
	case state == space.StateLost && box.Execution.HeldBy != "":
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox was suspended, and what it was suspended into is gone: %s", WaysOut(box))
	case !state.CanBecome(space.StateStarting):
		return record.Change{}, unfit(box, "is stopped or lost can be started from its disk")
	}
	if err := fits(now, quota.OfStart(box.Shape)); err != nil {
		return record.Change{}, err
	}
	return record.Change{
		Kind: record.StartSandbox, Operation: operation, Desired: record.DesiredRunning,
		Execution:    record.Execution{Route: next(now, execution), DiskOf: disk(box.Execution)},
		DropLifetime: hasPassed(box.Lifetime, at),
	}, nil
}

// fits refuses one more machine of the sandbox for which there's no room, with as much more of the project's quota.
func fits(now record.Situation, more record.Usage) error {
	room, err := now.Room(more)
	if err != nil {
		return err
	}
	return placement.Check(room, now.Sandbox.Shape)
}

// next is the route of the execution that follows a sandbox's current one.
func next(now record.Situation, execution string) space.Route {
	r := now.Sandbox.Execution.Route
	r.Execution, r.Epoch = execution, now.Epoch+1
	return r
}

// hasPassed reports whether a lifetime's deadline is over: who runs again isn't ended at once for it.
func hasPassed(l *record.Lifetime, at time.Time) bool { return l != nil && !l.Deadline.After(at) }

// disk is the execution that has a sandbox's disk: the current one, unless it never came to run.
func disk(e record.Execution) string {
	if e.Observed == space.ExecutionFailed {
		return e.DiskOf
	}
	return e.Route.Execution
}

// remove decides about a delete, which is possible whatever is so.
func remove(now record.Situation, operation string) (record.Change, error) {
	switch {
	case now.Sandbox.Desired != record.DesiredDeleted:
		return record.Change{
			Kind: record.DeleteSandbox, Operation: operation, Desired: record.DesiredDeleted, DropLifetime: true,
			Supersede: record.DeletedMeanwhile(operation),
		}, nil
	case now.Running != nil:
		return record.Change{Same: now.Running.ID}, nil
	default:
		return record.Change{Kind: record.DeleteSandbox, Done: true, Operation: operation}, nil
	}
}

// errNotDue says that what was found to be due of a sandbox isn't any more: something was done meanwhile, or it says something else.
var errNotDue = errors.New("it isn't due any more")

// expire decides about a sandbox whose lifetime was found to have ended at a time. The lifetime ends with its action: a stop or delete is never refused, but
// a suspend may fail. So its lifetime stays until the sandbox is suspended, and it's tried again.
func expire(now record.Situation, operation string, found record.Lifetime, at time.Time) (record.Change, error) {
	l := now.Sandbox.Lifetime
	switch {
	case l == nil || l.OnExpiry != found.OnExpiry || l.Deadline.After(at):
		return record.Change{}, errNotDue
	case l.OnExpiry == record.ExpiryDelete:
		return remove(now, operation)
	}
	if l.OnExpiry == record.ExpirySuspend {
		return unasked(suspend(now, operation, space.NewID(space.PrefixSnapshot)))
	}
	c, err := stop(now, operation, DefaultGrace)
	c.DropLifetime = true
	return unasked(c, err)
}

// unasked is a change that nobody asked for.
func unasked(c record.Change, err error) (record.Change, error) {
	c.Unasked = true
	return c, err
}

// relieve decides about a sandbox that was found to be paused while its node is short of memory.
func relieve(now record.Situation, operation string) (record.Change, error) {
	if State(now.Sandbox) != space.StatePaused {
		return record.Change{}, errNotDue
	}
	return unasked(suspend(now, operation, space.NewID(space.PrefixSnapshot)))
}

// idle decides about a sandbox that was found to have been idle for as long as it says, at a time.
func idle(now record.Situation, operation string, found record.Idling, at time.Time) (record.Change, error) {
	box := now.Sandbox
	i := box.Lifecycle.Idle
	switch {
	case i == nil || *i != found.Idle || !i.IsOver(box.ActiveAt, at):
		return record.Change{}, errNotDue
	case i.Action == record.IdleDelete:
		return remove(now, operation)
	default:
		return unasked(suspend(now, operation, space.NewID(space.PrefixSnapshot)))
	}
}

// underWay answers for a verb while an operation runs: the same verb gets the same operation, another one a conflict that names it.
func underWay(now record.Situation, kind record.OperationKind) (record.Change, error) {
	switch state := State(now.Sandbox); {
	case slices.Contains([]space.State{space.StateDeleting, space.StateDeleted}, state):
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s", state)
	case now.Running == nil:
		return record.Change{}, nil
	case now.Running.Kind == kind:
		return record.Change{Same: now.Running.ID}, nil
	default:
		return record.Change{}, inTheWay(now.Running)
	}
}

func inTheWay(o *record.Operation) error {
	e := space.Errorf(space.CodeConflict, "operation %s (%s) is under way: wait until it has ended", o.ID, o.Kind)
	e.Operation = o.ID
	return e
}
