package sessions

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// step is what a resolution does next.
type step int

const (
	stepOpen step = iota + 1 // the session runs, or may start, in the sandbox's current execution
	stepFix                  // the same, but the session must be fixed to that execution first
	stepWait                 // the sandbox doesn't run yet
	stepWake                 // it is woken, and waited for
	stepRead                 // the session has ended with its execution: what is kept of it is read
)

// decide says what an attach to session with a token does, given what the token opens and what it may do. It's pure; the errors are final.
func decide(t record.Target, session string, may may) (step, error) {
	switch {
	case t.Revoked:
		return 0, space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
	case t.Session.ID != session:
		return 0, space.Errorf(space.CodeForbidden, "the token doesn't open this session")
	case t.Expired:
		return 0, space.Errorf(space.CodeTokenExpired, "the token has expired: create another one")
	case t.Desired == record.DesiredDeleted:
		return 0, space.Errorf(space.CodeExecutionLost, "sandbox %s is deleted", t.Sandbox)
	case may.wake && t.AutoWake && !t.SessionEnded && sleeps(t):
		return stepWake, nil
	case !may.wake && !t.SessionEnded && sleeps(t) && (!may.start || t.Session.Execution == ""): // nothing of it can be read meanwhile
		return stepWait, nil
	case t.Execution.Observed == space.ExecutionPending && t.Execution.Snapshot != "" && !t.SessionEnded: // it may go on in what is being loaded
		return stepWait, nil
	case t.Session.Execution != "" && t.Session.Execution != t.Execution.Route.Execution && t.Execution.Observed != space.ExecutionGone:
		return stepRead, nil
	}
	return decideRunning(t)
}

// sleeps reports whether a sandbox is paused or suspended, or is about to be.
func sleeps(t record.Target) bool {
	switch t.Execution.Observed {
	case space.ExecutionRunning:
		return t.Desired == record.DesiredPaused || t.Desired == record.DesiredSuspended
	case space.ExecutionPaused:
		return t.Desired == record.DesiredPaused || t.Desired == record.DesiredSuspended
	case space.ExecutionSuspended:
		return true
	default:
		return false
	}
}

// decideRunning decides by the machine of a sandbox that isn't to go.
func decideRunning(t record.Target) (step, error) {
	begun := t.Session.Execution != ""
	switch t.Execution.Observed {
	case space.ExecutionRunning:
		switch {
		case begun:
			return stepOpen, nil
		case t.Desired != record.DesiredRunning:
			return 0, space.Errorf(space.CodeConflict, "the sandbox is to be %s: wake it, and attach then", t.Desired)
		}
		return stepFix, nil
	case space.ExecutionPaused:
		switch {
		case begun: // its stream stays open over a pause
			return stepOpen, nil
		case t.Desired == record.DesiredRunning:
			return stepWait, nil
		}
		return 0, space.Errorf(space.CodeConflict, "the sandbox is paused: resume it, and attach then")
	case space.ExecutionSuspended:
		if begun {
			return stepRead, nil
		}
		return 0, space.Errorf(space.CodeConflict, "the sandbox is suspended: restore it, and attach then")
	case space.ExecutionPending:
		return stepWait, nil
	case space.ExecutionStopped, space.ExecutionLost:
		switch {
		case begun:
			return stepRead, nil
		case t.Execution.Observed == space.ExecutionLost:
			return 0, lost(t)
		}
		return 0, space.Errorf(space.CodeConflict, "the sandbox is stopped: start it, and attach then")
	case space.ExecutionFailed:
		if t.Execution.DiskOf != "" {
			return 0, space.Errorf(space.CodeConflict, "the sandbox couldn't be started from its disk: %s", reason(t.Execution))
		}
	}
	return 0, lost(t)
}

func lost(t record.Target) error {
	return space.Errorf(space.CodeExecutionLost, "sandbox %s has no machine any more: %s", t.Sandbox, reason(t.Execution))
}

func reason(e record.Execution) string {
	if e.Error == nil {
		return string(e.Observed)
	}
	return string(e.Observed) + ", " + e.Error.Message
}
