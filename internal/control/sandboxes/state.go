package sandboxes

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// State is what the API shows of a sandbox: a function of what is desired of it, what its node has seen of its current execution, while that
// boots from another one's disk, or couldn't, of that one, and of whether all are gone.
func State(s record.Sandbox) space.State {
	switch {
	case s.Deleted:
		return space.StateDeleted
	case s.Desired == record.DesiredDeleted:
		return space.StateDeleting
	}
	switch s.Execution.Observed {
	case space.ExecutionRunning:
		if s.Desired == record.DesiredStopped {
			return space.StateStopping
		}
		return space.StateRunning
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

func beforeRunning(e record.Execution) space.State {
	if e.DiskOf != "" {
		return space.StateStarting
	}
	return space.StateCreating
}

// afterFailure is the state of a sandbox whose machine never came to run. One that couldn't be started from a disk is what it was before.
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
