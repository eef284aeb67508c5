package sessions

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
)

// Resolve turns a token into the session that it opens and the execution to open it in: an attachment token of the session, or a token of
// its sandbox. The first resolution fixes the session to that execution. A sandbox that is being created, started or woken is waited for, at most
// access.StartWait. Of a session whose execution is over the target is what is kept of it.
//
// Errors: unauthenticated, forbidden (the token opens another session), token_expired, execution_lost, conflict (the sandbox doesn't run),
// timeout (it doesn't yet), unavailable.
func (s *Sessions) Resolve(ctx context.Context, token, session string) (record.Target, error) {
	return s.resolve(ctx, token, session, may{start: true, wake: true})
}

// ResolveAsleep does the same for a client that came back by itself: it wakes nothing. Of a session in a suspended sandbox the target is what is kept; timeout
// if it can't be read yet.
func (s *Sessions) ResolveAsleep(ctx context.Context, token, session string) (record.Target, error) {
	return s.resolve(ctx, token, session, may{start: true})
}

// ResolveStarted does the same for who tells a session something that was started, and starts none: conflict if it was never attached to, or has
// ended with its execution. With letSleep a sandbox that sleeps is waited for and not woken: timeout if it sleeps on.
func (s *Sessions) ResolveStarted(ctx context.Context, token, session string, letSleep bool) (record.Target, error) {
	return s.resolve(ctx, token, session, may{wake: !letSleep})
}

// may is what a resolution may do to have what it's for.
type may struct{ start, wake bool }

func (s *Sessions) resolve(ctx context.Context, token, session string, may may) (record.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, access.StartWait)
	defer cancel()
	t, err := s.target(ctx, token, session)
	if err != nil {
		return record.Target{}, err
	}
	news := s.bell.Watch(t.Sandbox)
	defer news.Close()
	wait := s.waits.Of(t.Project)
	defer wait.End()
	var alarm access.Alarm
	for {
		next, err := decide(t, session, may)
		switch {
		case err == nil && next == stepOpen:
			s.activity.Seen(t.Sandbox, time.Now())
			return t, nil
		case err != nil:
			return t, err
		case next == stepWake:
			if err := s.wake(ctx, &alarm, t, func() bool { return wait.Next(ctx, news) }); err != nil {
				return record.Target{}, err
			}
		case next == stepRead && !may.start:
			return t, space.Errorf(space.CodeConflict, "the session has ended")
		case next == stepRead:
			t.Kept = true
			return t, nil
		case next == stepFix && !may.start:
			return t, space.Errorf(space.CodeConflict, "the session hasn't been started: its first attach starts it")
		case next == stepFix:
			s.activity.Seen(t.Sandbox, time.Now())
			if err := s.fix(ctx, &t); err != nil || t.Session.Execution != "" {
				return t, err
			}
			// Another attach was first, or the execution is another one now: read again.
		case !wait.Next(ctx, news):
			return record.Target{}, space.Errorf(space.CodeTimeout, "the sandbox doesn't run yet: attach again in a moment")
		}
		if t, err = s.target(ctx, token, session); err != nil {
			return record.Target{}, err
		}
	}
}

// wake wakes a sandbox that sleeps, and waits for something new of it. It's refused while an operation is under way, which is waited for, too.
func (s *Sessions) wake(ctx context.Context, alarm *access.Alarm, t record.Target, next func() bool) error {
	if err := alarm.Ring(ctx, s.sandboxes, t.Project, t.Sandbox); err != nil {
		return err
	}
	if !next() {
		return space.Errorf(space.CodeTimeout, "the sandbox was asleep and doesn't run yet: attach again in a moment")
	}
	return nil
}

// target is what a token opens when it's shown for a session.
func (s *Sessions) target(ctx context.Context, secret, session string) (record.Target, error) {
	switch {
	case token.Attachment.Is(secret):
		return s.store.AttachmentTarget(ctx, token.Hash(secret))
	case token.Sandbox.Is(secret):
		return s.store.SandboxTokenTarget(ctx, token.Hash(secret), session)
	default:
		return record.Target{}, refuseToken(secret)
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
