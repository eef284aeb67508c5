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
)

// decide says what an attach to session with a token does, given what the token opens. It's pure; the errors are final.
func decide(t record.Target, session string) (step, error) {
	switch {
	case t.Revoked:
		return 0, space.Errorf(space.CodeUnauthenticated, "the attachment token isn't valid")
	case t.Session.ID != session:
		return 0, space.Errorf(space.CodeForbidden, "the attachment token doesn't open this session")
	case t.Expired:
		return 0, space.Errorf(space.CodeTokenExpired, "the attachment token has expired: create another attachment of the session")
	case t.Session.Execution != "" && t.Session.Execution != t.Execution.Route.Execution:
		return 0, space.Errorf(space.CodeSessionLost, "the session's execution is gone; the sandbox runs in another one: create a new session")
	case t.Desired == record.DesiredDeleted:
		return 0, space.Errorf(space.CodeExecutionLost, "sandbox %s is deleted", t.Sandbox)
	}
	switch t.Execution.Observed {
	case space.ExecutionRunning:
		if t.Session.Execution == "" {
			return stepFix, nil
		}
		return stepOpen, nil
	case space.ExecutionPending:
		return stepWait, nil
	default:
		return 0, space.Errorf(space.CodeExecutionLost, "sandbox %s has no machine any more: %s", t.Sandbox, reason(t.Execution))
	}
}

func reason(e record.Execution) string {
	if e.Error == nil {
		return string(e.Observed)
	}
	return string(e.Observed) + ", " + e.Error.Message
}
