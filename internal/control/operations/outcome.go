package operations

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// aims are the states of a sandbox's current execution that operations wait for. A delete waits until no execution is left.
var aims = map[record.OperationKind]space.ExecutionState{
	record.CreateSandbox:   space.ExecutionRunning,
	record.StartSandbox:    space.ExecutionRunning,
	record.StopSandbox:     space.ExecutionStopped,
	record.PauseSandbox:    space.ExecutionPaused,
	record.ResumeSandbox:   space.ExecutionRunning,
	record.SuspendSandbox:  space.ExecutionSuspended,
	record.RestoreSandbox:  space.ExecutionRunning,
	record.RollbackSandbox: space.ExecutionRunning,
}

// Outcome says what an observation of a sandbox's current execution does to the operation of that kind that runs: whether it has ended, and
// if so with which failure; nil is success.
func Outcome(kind record.OperationKind, seen record.ExecutionSeen) (ended bool, failure *space.Error) {
	aim, waits := aims[kind]
	switch {
	case !waits:
		return false, nil
	case seen.Refused != "" && seen.Error != nil:
		return true, seen.Error
	case seen.State == aim:
		return true, nil
	case seen.State == space.ExecutionRunning || seen.State == space.ExecutionPending || seen.State == space.ExecutionPaused:
		return false, nil
	case seen.Error != nil:
		return true, seen.Error
	default:
		return true, space.Errorf(space.CodeConflict, "the sandbox's machine is %s", seen.State)
	}
}

// SnapshotOutcome says the same of what was seen of the snapshot that the operation makes. A suspend ends well with its execution, and a fork with its children.
func SnapshotOutcome(kind record.OperationKind, seen record.SnapshotStatus) (ended bool, failure *space.Error) {
	switch seen.State {
	case record.SnapshotReady:
		return kind == record.SnapshotSandbox, nil
	case record.SnapshotFailed, record.SnapshotLost:
		return kind == record.SnapshotSandbox || kind == record.SuspendSandbox, seen.Error
	case record.SnapshotGone:
		return kind == record.SnapshotSandbox || kind == record.SuspendSandbox, space.Errorf(space.CodeConflict, "the snapshot was deleted")
	default:
		return false, nil
	}
}

// LetsGo says whether an operation needs its sandbox no longer, after what was seen of its snapshot: the children of a fork are loaded from that.
func LetsGo(kind record.OperationKind, seen record.SnapshotStatus) bool {
	return kind == record.ForkSandbox && seen.State != record.SnapshotMaking
}

// FallBack is what is desired of a sandbox with an execution in a state, when what was desired couldn't be done: what is.
func FallBack(s space.ExecutionState) record.Desired {
	switch s {
	case space.ExecutionPaused:
		return record.DesiredPaused
	case space.ExecutionSuspended:
		return record.DesiredSuspended
	case space.ExecutionStopped:
		return record.DesiredStopped
	default:
		return record.DesiredRunning
	}
}
