package session

import (
	"context"
	"sync"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
)

// request is something that the guest is to be told of a session, once.
type request struct {
	message *guestv1.ToSession
	done    chan<- error // has room for one
}

// Signal sends a signal to the process group of a session that runs. It returns when it's on its way.
func (s *Set) Signal(ctx context.Context, id string, signal int32) error {
	if signal < 1 || signal > maxSignal {
		return space.FieldErrorf("signal", "%d: want 1 to %d", signal, maxSignal)
	}
	ses, err := s.get(id)
	if err != nil {
		return err
	}
	return ses.tell(ctx, &guestv1.ToSession{Message: &guestv1.ToSession_Signal{Signal: signal}})
}

// Resize changes the size of a session's terminal.
func (s *Set) Resize(ctx context.Context, id string, t *sessionv1.Terminal) error {
	if err := CheckTerminal(t); err != nil {
		return err
	}
	ses, err := s.get(id)
	if err != nil {
		return err
	}
	if !ses.summary.tty {
		return space.Errorf(space.CodeConflict, "session %s has no terminal", id)
	}
	return ses.tell(ctx, &guestv1.ToSession{Message: &guestv1.ToSession_Resize{Resize: t}})
}

// maxTerminal is the greatest number of rows, and of columns.
const maxTerminal = 1000

// CheckTerminal refuses a size that no terminal has.
func CheckTerminal(t *sessionv1.Terminal) error {
	for field, n := range map[string]uint32{"rows": t.GetRows(), "cols": t.GetCols()} {
		if n < 1 || n > maxTerminal {
			return space.FieldErrorf(field, "%d: want 1 to %d", n, maxTerminal)
		}
	}
	return nil
}

// get returns a session that was started.
func (s *Set) get(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses, ok := s.sessions[id]; ok {
		return ses, nil
	}
	if s.lost != nil {
		return nil, s.lost
	}
	return nil, space.Errorf(space.CodeNotFound, "session %s is not known to this execution", id)
}

// checkLive says why nobody listens to the session any more.
func (s *Session) checkLive() error {
	_, exit, lost, _ := s.outcome()
	switch {
	case lost != nil:
		return lost
	case exit != nil:
		return errSessionEnded
	}
	return nil
}

// tell sends a message to the guest over whatever stream serves the session, once there is one.
func (s *Session) tell(ctx context.Context, m *guestv1.ToSession) error {
	if err := s.checkLive(); err != nil {
		return err
	}
	ctx, cancel := s.whileLive(ctx)
	defer cancel()
	ctx, stop := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer stop()
	done := make(chan error, 1)
	select {
	case s.requests <- request{m, done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		if err != nil && ctx.Err() == nil {
			return space.Errorf(space.CodeUnavailable, "the session's guest can't be reached right now: %w", err)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// whileLive returns a context that ends when the session has. The caller calls cancel.
func (s *Session) whileLive(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.away, func() { end(errElsewhere) })
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			_, _, _, changed := s.outcome()
			if err := s.checkLive(); err != nil {
				end(err)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		stop()
		end(nil)
		watch.Wait()
	}
}

// What a wait for the guest ends with.
var (
	errSessionEnded = space.Errorf(space.CodeConflict, "the session has ended")
	errNoAnswer     = space.Errorf(space.CodeUnavailable, "the session's guest doesn't answer right now; try again")
)

// pass sends on what is asked for, until ctx ends.
func (s *Session) pass(ctx context.Context, st *link.Stream) error {
	for {
		select {
		case r := <-s.requests:
			err := send(ctx, st, r.message)
			r.done <- err
			if err != nil {
				return unlessDone(ctx, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
