package sandboxes

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
)

// pause decides about a pause.
func pause(now record.Situation, operation string) (record.Change, error) {
	state := State(now.Sandbox)
	switch same, err := underWay(now, record.PauseSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StatePaused:
		return record.Change{Kind: record.PauseSandbox, Done: true, Operation: operation}, nil
	case !state.CanBecome(space.StatePausing):
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s: only one that runs can be paused", state)
	}
	return record.Change{Kind: record.PauseSandbox, Operation: operation, Desired: record.DesiredPaused}, nil
}

// resume decides about a resume.
func resume(now record.Situation, operation string) (record.Change, error) {
	state := State(now.Sandbox)
	switch same, err := underWay(now, record.ResumeSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateRunning:
		return record.Change{Kind: record.ResumeSandbox, Done: true, Operation: operation}, nil
	case !state.CanBecome(space.StateResuming):
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s: only one that is paused can be resumed", state)
	}
	if _, err := now.Room(quota.OfResume(now.Sandbox.Shape)); err != nil { // of its memory nothing was given away
		return record.Change{}, err
	}
	return record.Change{Kind: record.ResumeSandbox, Operation: operation, Desired: record.DesiredRunning}, nil
}

// suspend decides about a suspend whose snapshot would have that id. It needs nothing of a quota: it frees more than it takes.
func suspend(now record.Situation, operation, snapshot string) (record.Change, error) {
	state := State(now.Sandbox)
	switch same, err := underWay(now, record.SuspendSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateSuspended:
		return record.Change{Kind: record.SuspendSandbox, Done: true, Operation: operation}, nil
	case !state.CanBecome(space.StateSuspending):
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s: only one that runs or is paused can be suspended", state)
	}
	return record.Change{
		Kind: record.SuspendSandbox, Operation: operation, Desired: record.DesiredSuspended,
		Snapshot: &record.NewSnapshot{ID: snapshot, Route: now.Sandbox.Execution.Route, Kind: record.SnapshotFull, Purpose: record.PurposeSuspend},
	}, nil
}

// restore decides about a restore at a time, whose execution would have that id. A cold one boots from the disk of the snapshot, and leaves its memory.
func restore(now record.Situation, operation, execution string, cold bool, at time.Time) (record.Change, error) {
	box, state := now.Sandbox, State(now.Sandbox)
	switch same, err := underWay(now, record.RestoreSandbox); {
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateRunning:
		return record.Change{Kind: record.RestoreSandbox, Done: true, Operation: operation}, nil
	case state != space.StateSuspended:
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s: only one that is suspended can be restored", state)
	}
	if err := fits(now, quota.OfStart(box.Shape)); err != nil {
		return record.Change{}, err
	}
	return record.Change{
		Kind: record.RestoreSandbox, Operation: operation, Desired: record.DesiredRunning, DropLifetime: hasPassed(box.Lifetime, at),
		Execution: record.Execution{Route: next(now, execution), Snapshot: box.Execution.HeldBy, Cold: cold, Replaces: box.Execution.Route.Execution},
	}, nil
}
