package sandboxes

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// State is what the API shows of a sandbox: a function of what is desired of it, what its node has seen of its current execution, what that is made of,
// while it boots from another one's disk, or couldn't, of that one, and of whether all are gone.
func State(s record.Sandbox) space.State {
	switch {
	case s.Deleted:
		return space.StateDeleted
	case s.Desired == record.DesiredDeleted:
		return space.StateDeleting
	}
	switch s.Execution.Observed {
	case space.ExecutionRunning:
		return onTheWay(s.Desired, space.StateRunning)
	case space.ExecutionPaused:
		return onTheWay(s.Desired, space.StatePaused)
	case space.ExecutionSuspended:
		return space.StateSuspended
	case space.ExecutionStopped:
		return space.StateStopped
	case space.ExecutionFailed:
		return afterFailure(s.Execution)
	case space.ExecutionLost, space.ExecutionGone: // gone without having been told to: nobody writes that, and it would be a loss
		return space.StateLost
	default:
		return beforeRunning(s.Execution)
	}
}

// onTheWay is the state of a sandbox with a machine that is in one, if something else may be desired.
func onTheWay(d record.Desired, is space.State) space.State {
	switch {
	case d == record.DesiredStopped:
		return space.StateStopping
	case d == record.DesiredSuspended:
		return space.StateSuspending
	case d == record.DesiredPaused && is == space.StateRunning:
		return space.StatePausing
	case d == record.DesiredRunning && is == space.StatePaused:
		return space.StateResuming
	default:
		return is
	}
}

func beforeRunning(e record.Execution) space.State {
	switch {
	case e.DiskOf != "":
		return space.StateStarting
	case e.Replaces != "":
		return space.StateRestoring
	default:
		return space.StateCreating
	}
}

// afterFailure is the state of a sandbox whose machine never came to run. One that couldn't be started from a disk is what it was before; one that couldn't
// be loaded from a snapshot has its former execution again, and isn't seen here.
func afterFailure(e record.Execution) space.State {
	switch {
	case e.DiskOf == "":
		return space.StateFailed
	case e.Disk == space.ExecutionStopped:
		return space.StateStopped
	default:
		return space.StateLost
	}
}
