package sessions

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// startWait is how long an attach waits for a sandbox that is being created: less than the edge waits for the answer.
	startWait = 4 * time.Second
	// pollEvery is the safety net for a wake-up that was lost.
	pollEvery = 2 * time.Second
)

// Resolve turns an attachment token into the session that it opens and the execution to open it in. The first resolution fixes the
// session to that execution. A sandbox that is being created is waited for, at most startWait.
//
// Errors: unauthenticated, forbidden (the token of another session), token_expired, session_lost, execution_lost, conflict (the sandbox
// doesn't run yet), unavailable.
func (s *Sessions) Resolve(ctx context.Context, token, session string) (record.Target, error) {
	if err := checkToken(token); err != nil {
		return record.Target{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	var w waiter
	defer w.close()
	for {
		t, err := s.store.AttachmentTarget(ctx, hash(token))
		if err != nil {
			return record.Target{}, err
		}
		next, err := decide(t, session)
		switch {
		case err != nil || next == stepOpen:
			return t, err
		case next == stepFix:
			if err := s.fix(ctx, &t); err != nil || t.Session.Execution != "" {
				return t, err
			}
			// Another attach was first, or the execution is another one now: read again.
		default:
			if err := w.wait(ctx, s.bell, t.Sandbox); err != nil {
				return record.Target{}, err
			}
		}
	}
}

func (s *Sessions) fix(ctx context.Context, t *record.Target) error {
	execution := t.Execution.Route.Execution
	fixed, err := s.store.FixSession(ctx, t.Session.ID, execution)
	if fixed {
		t.Session.Execution = execution
	}
	return err
}

// waiter waits for news of a sandbox. The zero value is ready.
type waiter struct {
	rung <-chan struct{}
	stop func()
}

// wait returns when there may be news. The first time it only begins to listen and returns at once, since there may have been some.
func (w *waiter) wait(ctx context.Context, bell *wake.Bell, sandbox string) error {
	if w.rung == nil {
		w.rung, w.stop = bell.Listen(sandbox)
		return nil
	}
	poll := time.NewTimer(pollEvery)
	defer poll.Stop()
	select {
	case <-w.rung:
	case <-poll.C:
	case <-ctx.Done():
		return space.Errorf(space.CodeConflict, "sandbox %s doesn't run yet: attach again in a moment", sandbox)
	}
	return nil
}

func (w *waiter) close() {
	if w.stop != nil {
		w.stop()
	}
}
