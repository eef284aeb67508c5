package sandboxes

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// State is what the API shows of a sandbox: a function of what is desired of it and what its node has seen of its current execution.
func State(desired record.Desired, observed space.ExecutionState) space.State {
	if desired == record.DesiredDeleted {
		if observed == space.ExecutionGone {
			return space.StateDeleted
		}
		return space.StateDeleting
	}
	switch observed {
	case space.ExecutionRunning:
		return space.StateRunning
	case space.ExecutionFailed:
		return space.StateFailed
	case space.ExecutionLost, space.ExecutionGone: // gone without having been told to: nobody writes that, and it would be a loss
		return space.StateLost
	default:
		return space.StateCreating
	}
}
