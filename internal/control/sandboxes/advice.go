package sandboxes

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// unfit refuses a verb to a sandbox that isn't what the verb is for, and says what can be done with it instead.
func unfit(box record.Sandbox, only string) error {
	state := State(box)
	if next := nextStep(box); next != "" {
		return space.Errorf(space.CodeConflict, "the sandbox is %s: only one that %s; %s", state, only, next)
	}
	return space.Errorf(space.CodeConflict, "the sandbox is %s: only one that %s", state, only)
}

// nextStep is what has a sandbox run, or what becomes of it otherwise; empty of one that runs.
func nextStep(box record.Sandbox) string {
	switch State(box) {
	case space.StateRunning:
		return ""
	case space.StatePaused:
		return "resume has it run on"
	case space.StateSuspended:
		return "restore has it go on where it was, with cold it boots from its disk instead"
	case space.StateStopped:
		return "start boots it from its disk"
	case space.StateLost:
		return WaysOut(box)
	case space.StateFailed:
		return "it never ran: see its error, delete it, and create another one"
	default:
		return "wait until that has ended"
	}
}

// WaysOut says what can be done with a sandbox that is lost, of what is left of it: nothing is advised that would be refused or can't succeed.
func WaysOut(box record.Sandbox) string {
	switch disk, point := hasDisk(box), box.Recovery != nil; {
	case disk && point:
		return "start boots it from its disk as that is, rollback returns it to its recovery point"
	case disk:
		return "start boots it from its disk as that is; it has no recovery point to return to"
	case point:
		return "its disk can't be used any more; rollback returns it to its recovery point"
	default:
		return "its disk can't be used any more, and it has no recovery point: delete it and create another one, unless its list of snapshots has a ready one that was given up, which rollback can be told"
	}
}

// hasDisk reports whether there may be a disk from which a lost sandbox can be started. There's none when it was suspended into a snapshot that is gone, or when a
// start found none.
func hasDisk(box record.Sandbox) bool {
	e := box.Execution
	return e.HeldBy == "" && (e.Error == nil || e.Observed != space.ExecutionFailed || e.Error.Code != space.CodeExecutionLost)
}
