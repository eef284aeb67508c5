package access

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// StartWait is how long a request waits for a sandbox that is being created, started or woken: less than the edge waits for the answer, that less than the
// 45 s after which clients take a silent connection for a dead one, and that less than the minute that E2B's SDKs have.
const StartWait = 40 * time.Second

// ResolveToken returns the sandbox that a token opens, with the execution to use. Errors: unauthenticated, forbidden (another sandbox's
// token), token_expired, execution_lost, conflict (it doesn't run), unavailable.
func (a *Access) ResolveToken(ctx context.Context, token, sandbox string) (record.Sandbox, error) {
	b, err := a.Bearer(ctx, token, sandbox)
	if err != nil {
		return record.Sandbox{}, err
	}
	return a.running(ctx, b.Project, sandbox, func() error {
		_, err := a.Bearer(ctx, token, sandbox)
		return err
	})
}

// ResolveKept does the same for who reads what the sandbox has kept of its sessions: it needn't run, and isn't waited for.
func (a *Access) ResolveKept(ctx context.Context, token, sandbox string) (record.Sandbox, error) {
	b, err := a.Bearer(ctx, token, sandbox)
	if err != nil {
		return record.Sandbox{}, err
	}
	box, err := a.sandboxes.Get(ctx, b.Project, sandbox)
	if err != nil {
		return record.Sandbox{}, err
	}
	if s := sandboxes.State(box); s == space.StateDeleting || s == space.StateDeleted {
		return record.Sandbox{}, space.Errorf(space.CodeExecutionLost, "the sandbox is deleted")
	}
	return box, nil
}

// ResolveFileURL does what ResolveToken does for a signed URL.
func (a *Access) ResolveFileURL(ctx context.Context, sandbox string, u FileURL) (record.Sandbox, error) {
	if space.CheckID(space.PrefixSandbox, sandbox) != nil {
		return record.Sandbox{}, space.Errorf(space.CodeUnauthenticated, "the URL names no sandbox")
	}
	if err := a.verify(ctx, sandbox, u); err != nil {
		return record.Sandbox{}, err
	}
	project, err := a.store.SandboxProject(ctx, sandbox)
	if err != nil {
		return record.Sandbox{}, err
	}
	return a.running(ctx, project, sandbox, func() error { return a.verify(ctx, sandbox, u) })
}

// running returns a sandbox that runs; one that is being created or started, or is woken for it, is waited for, at most StartWait. What was shown for it must
// be good then, too: much may be revoked meanwhile.
func (a *Access) running(ctx context.Context, project, sandbox string, still func() error) (record.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, StartWait)
	defer cancel()
	news := a.bell.Watch(sandbox)
	defer news.Close()
	wait := a.waits.Of(project)
	defer wait.End()
	var alarm Alarm
	for {
		box, err := a.sandboxes.Get(ctx, project, sandbox)
		if err != nil {
			return record.Sandbox{}, err
		}
		switch state := sandboxes.State(box); state {
		case space.StateRunning:
			if wait.counted {
				if err := still(); err != nil {
					return record.Sandbox{}, err
				}
			}
			a.activity.Seen(sandbox, time.Now())
			return box, nil
		case space.StatePausing, space.StatePaused, space.StateSuspending, space.StateSuspended:
			if err := alarm.WakeUp(ctx, a.sandboxes, box); err != nil {
				return record.Sandbox{}, err
			}
			if !wait.Next(ctx, news) {
				return record.Sandbox{}, space.Errorf(space.CodeTimeout, "the sandbox was %s and doesn't run yet: try again in a moment", state)
			}
		case space.StateLost:
			return record.Sandbox{}, space.Errorf(space.CodeExecutionLost, "the sandbox's machine is lost: %s", sandboxes.WaysOut(box))
		case space.StateDeleting, space.StateDeleted:
			return record.Sandbox{}, space.Errorf(space.CodeExecutionLost, "the sandbox is deleted")
		case space.StateCreating, space.StateStarting, space.StateResuming, space.StateRestoring:
			if !wait.Next(ctx, news) {
				return record.Sandbox{}, space.Errorf(space.CodeTimeout, "the sandbox doesn't run yet: try again in a moment")
			}
		default:
			return record.Sandbox{}, space.Errorf(space.CodeConflict, "the sandbox is %s: it must run for this", state)
		}
	}
}

// Waker has a sandbox run by whichever verb does.
type Waker interface {
	Wake(ctx context.Context, project, id string) (operation string, err error)
	// Woken says what has become of a wake: nil while it's under way, or why it failed; a conflict if the sandbox ran, and sleeps again.
	Woken(ctx context.Context, project, operation string) error
}

// WakeUp wakes a paused or suspended sandbox that somebody needs to run, if it says so; else the error is a conflict that names the verb. One that is about to be
// paused or suspended is woken when it is: for now there's nothing to do.
func WakeUp(ctx context.Context, waker Waker, box record.Sandbox) error {
	return new(Alarm).WakeUp(ctx, waker, box)
}

// Alarm wakes a sandbox for one request, once: one that couldn't be woken, or was and sleeps again, isn't woken anew and anew for it.
type Alarm struct{ operation string }

// WakeUp is the function of that name.
func (a *Alarm) WakeUp(ctx context.Context, waker Waker, box record.Sandbox) error {
	if !box.Lifecycle.AutoWake {
		return space.Errorf(space.CodeConflict, "the sandbox is %s, and isn't woken by itself: wake it first", sandboxes.State(box))
	}
	return a.Ring(ctx, waker, box.Project, box.ID)
}

// Ring wakes a sandbox that says that it may be woken. Errors: why it couldn't be.
func (a *Alarm) Ring(ctx context.Context, waker Waker, project, id string) error {
	if a.operation != "" {
		return waker.Woken(ctx, project, a.operation)
	}
	operation, err := waker.Wake(ctx, project, id)
	if space.CodeOf(err) == space.CodeConflict { // something else is under way
		return nil
	}
	a.operation = operation
	return err
}
