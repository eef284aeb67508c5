package operations

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// aims are the states of a sandbox's current execution that operations wait for. A delete waits until no execution is left.
var aims = map[record.OperationKind]space.ExecutionState{
	record.CreateSandbox: space.ExecutionRunning,
	record.StartSandbox:  space.ExecutionRunning,
	record.StopSandbox:   space.ExecutionStopped,
}

// Outcome says what an observation of a sandbox's current execution does to the operation of that kind that runs: whether it has ended, and
// if so with which failure; nil is success.
func Outcome(kind record.OperationKind, seen record.ExecutionSeen) (ended bool, failure *space.Error) {
	aim, waits := aims[kind]
	switch {
	case !waits:
		return false, nil
	case seen.State == aim:
		return true, nil
	case seen.State == space.ExecutionRunning || seen.State == space.ExecutionPending:
		return false, nil
	case seen.Error != nil:
		return true, seen.Error
	default:
		return true, space.Errorf(space.CodeConflict, "the sandbox's machine is %s", seen.State)
	}
}
