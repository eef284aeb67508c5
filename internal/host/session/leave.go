package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	space "github.com/space-platform/space"
)

// Why a client is told to come back: its session goes on elsewhere.
const (
	reasonSuspended = "suspended" // in whatever is restored from a snapshot
	reasonReplaced  = "replaced"  // in another execution of the sandbox, that runs
)

// leftError ends the conversations with a session's clients.
type leftError struct{ reason string }

func (e *leftError) Error() string { return "the session goes on elsewhere: " + e.reason }

// errElsewhere is for those who bring something to a session that goes on elsewhere.
var errElsewhere = space.Errorf(space.CodeRouteStale, "the session goes on in another execution of the sandbox, or will; try again there")

// leave ends the conversations with its clients, once they have what is kept.
func (s *Session) leave(reason string) { s.left(&leftError{reason}) }

// untilAway returns a context that ends when the session goes on elsewhere. The caller calls cancel.
func (s *Session) untilAway(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.away, func() { end(context.Cause(s.away)) })
	return ctx, func() {
		stop()
		end(nil)
	}
}

// Suspend says that the sessions which run go on in another execution, when one is loaded from a snapshot of this one's machine. Those who are attached are
// told to come back then, no session starts here any more, and what is kept can still be read.
func (s *Set) Suspend(why *space.Error) {
	s.Refuse(why)
	s.cancel()
	s.pumps.Wait()
	for _, ses := range s.all() {
		if ses.live() {
			ses.leave(reasonSuspended)
		}
	}
}

// Yield gives up sessions that go on in a newer execution of the sandbox, which has them all: every other execution's are over, with why. It may be
// repeated.
func (s *Store) Yield(ids []string, to string, why *space.Error) error {
	s.mu.Lock()
	var others []*Set
	for name, set := range s.sets {
		if name != space.HostLabel(to) {
			others = append(others, set)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, set := range others {
		errs = append(errs, set.yield(ids, s.retention))
		set.End(why)
	}
	return errors.Join(errs...)
}

// yield removes sessions as if they had never been here.
func (s *Set) yield(ids []string, r *retention) error {
	s.cancel()
	s.pumps.Wait()
	var errs []error
	for _, ses := range s.all() {
		if !slices.Contains(ids, ses.id) {
			continue
		}
		ses.leave(reasonReplaced)
		r.remove(ses)
		s.limits.Ends.forget(ses.id)
		errs = append(errs, s.remove(ses))
	}
	return errors.Join(errs...)
}

// forget drops an end that isn't one: the session goes on.
func (e *Ends) forget(session string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.ends[session]; ok {
		e.drop(session)
		e.changed()
		slog.Info("a session goes on whose end wasn't told yet", "session", session)
	}
}
