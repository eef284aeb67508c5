package sandboxes

import (
	"slices"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/placement"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
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
		return record.Change{}, unfit(now.Sandbox, "runs can be paused")
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
		return record.Change{}, unfit(now.Sandbox, "is paused can be resumed")
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
		return record.Change{}, unfit(now.Sandbox, "runs or is paused can be suspended")
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
	case same.Same != "" && box.Execution.Cold != cold: // it isn't the same that is asked for
		return record.Change{}, inTheWay(now.Running)
	case same.Same != "" || err != nil:
		return same, err
	case state == space.StateRunning:
		return record.Change{Kind: record.RestoreSandbox, Done: true, Operation: operation}, nil
	case state != space.StateSuspended:
		return record.Change{}, unfit(box, "is suspended can be restored")
	}
	if err := fits(now, quota.OfStart(box.Shape)); err != nil {
		return record.Change{}, err
	}
	return record.Change{
		Kind: record.RestoreSandbox, Operation: operation, Desired: record.DesiredRunning, DropLifetime: hasPassed(box.Lifetime, at),
		Execution: record.Execution{Route: next(now, execution), Snapshot: box.Execution.HeldBy, Cold: cold, Replaces: box.Execution.Route.Execution},
	}, nil
}

// take decides about a snapshot that somebody asks for. It's always another one: who repeats a request says so with its Idempotency-Key.
func take(now record.Situation, operation string, n record.NewSnapshot) (record.Change, error) {
	state := State(now.Sandbox)
	if err := free(now); err != nil {
		return record.Change{}, err
	}
	switch {
	case state == space.StateRunning || state == space.StatePaused:
	case state == space.StateSuspended:
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is suspended, and snapshot %s is all of it: fork the sandbox, or restore it and take one then", now.Sandbox.Execution.HeldBy)
	case state == space.StateStopped && now.Sandbox.Execution.Observed != space.ExecutionStopped:
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox's last start has failed: start it, and take a snapshot then")
	case state != space.StateStopped:
		return record.Change{}, unfit(now.Sandbox, "runs, is paused or is stopped has something to take a snapshot of")
	case n.Kind != record.SnapshotDisk:
		e := space.Errorf(space.CodeConflict, "the sandbox is stopped and has no memory: only a snapshot of its disk can be taken")
		e.Field = "kind"
		return record.Change{}, e
	}
	if err := roomForSnapshot(now); err != nil {
		return record.Change{}, err
	}
	n.Route, n.Purpose = now.Sandbox.Execution.Route, record.PurposeAsked
	return record.Change{Kind: record.SnapshotSandbox, Operation: operation, Snapshot: &n}, nil
}

// fork decides about sandboxes that are to be made of one as it is at a time, each with an id of its own and otherwise as children says. One that is suspended is in a
// snapshot already.
func fork(now record.Situation, operation, snapshot string, children []record.NewSandbox, at time.Time) (record.Change, error) {
	box, state := now.Sandbox, State(now.Sandbox)
	if err := free(now); err != nil {
		return record.Change{}, err
	}
	c := record.Change{Kind: record.ForkSandbox, Operation: operation}
	switch state {
	case space.StateRunning, space.StatePaused:
		c.Snapshot = &record.NewSnapshot{ID: snapshot, Route: box.Execution.Route, Kind: record.SnapshotFull, Purpose: record.PurposeFork}
	case space.StateSuspended:
		snapshot, c.Loads = box.Execution.HeldBy, box.Execution.HeldBy
	default:
		return record.Change{}, unfit(box, "runs, is paused or is suspended can be forked")
	}
	if err := roomFor(now, len(children)); err != nil {
		return record.Change{}, err
	}
	for _, n := range children {
		n.Route.Epoch, n.Route.Placement = 1, box.Execution.Route.Placement
		n.Project, n.Template, n.Shape, n.Snapshot, n.Parent, n.PartOf, n.Lifecycle = box.Project, box.Template, box.Shape, snapshot, box.ID, operation, box.Lifecycle
		if n.Metadata == nil {
			n.Metadata = box.Metadata
		}
		if n.Lifetime == nil && !hasPassed(box.Lifetime, at) {
			n.Lifetime = box.Lifetime
		}
		c.Children = append(c.Children, n)
	}
	return c, nil
}

// roomForSnapshot refuses a snapshot beyond the project's quota, or on a node whose volume is almost full.
func roomForSnapshot(now record.Situation) error {
	room, err := now.Room(quota.OfSnapshot())
	if err != nil {
		return err
	}
	return placement.CheckDisk(room)
}

// roomFor refuses as many machines of the sandbox's size for which there's no room.
func roomFor(now record.Situation, count int) error {
	shape := now.Sandbox.Shape
	var more record.Usage
	for range count {
		more = more.With(quota.Of(shape))
	}
	room, err := now.Room(more)
	if err != nil {
		return err
	}
	return placement.CheckNew(room, shape, count)
}

// rollback decides about a return to a snapshot of the sandbox, to its recovery point if ref is empty. What it is now ends when that runs, and goes on if it can't.
func rollback(now record.Situation, operation, execution, ref string, cold bool, at time.Time) (record.Change, error) {
	box, state := now.Sandbox, State(now.Sandbox)
	if isRolledBack(now, ref, cold) {
		return record.Change{Same: now.Running.ID}, nil
	}
	if err := free(now); err != nil {
		return record.Change{}, err
	}
	if !state.CanBecome(space.StateRestoring) {
		return record.Change{}, unfit(box, "has run can be rolled back")
	}
	more := quota.OfStart(box.Shape)
	switch box.Desired {
	case record.DesiredRunning:
		more = record.Usage{}
	case record.DesiredPaused:
		more = quota.OfResume(box.Shape)
	}
	if err := fits(now, more); err != nil {
		return record.Change{}, err
	}
	n, err := target(now, ref) // held after the project and the node, as where sandboxes are created
	if err != nil {
		return record.Change{}, err
	}
	return record.Change{
		Kind: record.RollbackSandbox, Operation: operation, Desired: record.DesiredRunning, DropLifetime: hasPassed(box.Lifetime, at),
		Execution: record.Execution{Route: next(now, execution), Snapshot: n.ID, Cold: cold, Replaces: disk(box.Execution)},
	}, nil
}

// isRolledBack reports whether a rollback to the same snapshot is under way.
func isRolledBack(now record.Situation, ref string, cold bool) bool {
	if now.Running == nil || now.Running.Kind != record.RollbackSandbox || now.Sandbox.Execution.Cold != cold {
		return false
	}
	n, err := target(now, ref)
	return err == nil && n.ID == now.Sandbox.Execution.Snapshot
}

// target is the snapshot to which a sandbox is to be rolled back.
func target(now record.Situation, ref string) (record.Snapshot, error) {
	if ref == "" {
		if now.Sandbox.Recovery == nil {
			return record.Snapshot{}, space.Errorf(space.CodeConflict, "the sandbox has no recovery point: name the snapshot that it is to be rolled back to, if it has one (list its snapshots)")
		}
		ref = now.Sandbox.Recovery.Snapshot
	}
	if !isRef(ref) {
		return record.Snapshot{}, space.FieldErrorf("snapshot", "%q is no snapshot's id or name", space.Clip(ref))
	}
	n, err := now.Snapshot(ref)
	if space.CodeOf(err) == space.CodeNotFound || err == nil && n.Route.Sandbox != now.Sandbox.ID {
		return record.Snapshot{}, space.FieldErrorf("snapshot", "%q is no snapshot of this sandbox: of another one's a new sandbox is created", space.Clip(ref))
	}
	if err != nil {
		return record.Snapshot{}, err
	}
	return n, loadable(n)
}

// loadable refuses a snapshot from which nothing can be loaded as it is.
func loadable(n record.Snapshot) error {
	switch n.Status.State {
	case record.SnapshotReady, record.SnapshotDamaged: // what of a damaged one can be used, its node says when it's to be
		return nil
	case record.SnapshotMaking:
		return space.Errorf(space.CodeConflict, "snapshot %s is still being made: wait until it's ready", n.ID)
	default:
		return space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is %s%s: choose another one", n.ID, n.Status.State, because(n.Status.Error))
	}
}

// because is a reason in brackets, if there's one.
func because(e *space.Error) string {
	if e == nil {
		return ""
	}
	return " (" + e.Message + ")"
}

// free refuses while an operation is under way, whatever it is, and of a sandbox that is to go.
func free(now record.Situation) error {
	switch state := State(now.Sandbox); {
	case state == space.StateDeleting || state == space.StateDeleted:
		return space.Errorf(space.CodeConflict, "the sandbox is %s", state)
	case now.Running != nil:
		return inTheWay(now.Running)
	default:
		return nil
	}
}

// wakers are the operations after which a sandbox runs.
var wakers = []record.OperationKind{
	record.CreateSandbox, record.StartSandbox, record.ResumeSandbox, record.RestoreSandbox, record.RollbackSandbox,
}

// rouse decides about a wake: whichever verb has the sandbox run, if that is safe to do without being told what is lost by it.
func rouse(now record.Situation, operation, execution string, at time.Time) (record.Change, error) {
	state := State(now.Sandbox)
	if now.Running != nil && slices.Contains(wakers, now.Running.Kind) {
		return record.Change{Same: now.Running.ID}, nil
	}
	switch state {
	case space.StatePaused:
		return resume(now, operation)
	case space.StateSuspended:
		return restore(now, operation, execution, false, at)
	case space.StateLost:
		return record.Change{}, space.Errorf(space.CodeExecutionLost, "the sandbox is lost: %s", WaysOut(now.Sandbox))
	default:
		return start(now, operation, execution, at)
	}
}

// roll decides about a snapshot that a sandbox was found to be due to take of itself, at a time. It's no operation: nobody waits for it, and it stands in nobody's way.
func roll(now record.Situation, snapshot string, at time.Time) (record.Change, error) {
	if err := free(now); err != nil {
		return record.Change{}, err
	}
	rolling := now.Sandbox.Lifecycle.Rolling
	if rolling == nil {
		return record.Change{}, errNotDue
	}
	last, err := now.Rolled()
	if err != nil {
		return record.Change{}, err
	}
	kind, due := retention.Due(at, *rolling, last)
	if !due {
		return record.Change{}, errNotDue
	}
	if state := State(now.Sandbox); state != space.StateRunning {
		return record.Change{}, space.Errorf(space.CodeConflict, "the sandbox is %s", state)
	}
	if err := roomForSnapshot(now); err != nil {
		return record.Change{}, err
	}
	return record.Change{Snapshot: &record.NewSnapshot{ID: snapshot, Route: now.Sandbox.Execution.Route, Kind: kind, Purpose: record.PurposeRolling}}, nil
}
