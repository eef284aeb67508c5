package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
)

// How a session is taken up again after its stream broke.
const (
	firstBackOff   = 50 * time.Millisecond
	longestBackOff = 5 * time.Second
	spareHeld      = 2 * longestBackOff
	maxFailures    = 6 // broken conversations in a row on a living link, then the session is given up: after 1.5 s at least
)

// pump keeps one session in touch with the guest until nothing is left to say, or the set ends. It's the only goroutine that appends to
// the session's log. Once in its life a session that finds no room is lent some.
func (s *Set) pump(ses *Session) {
	backOff, failures, spared := firstBackOff, 0, false
	for ses.needsGuest() {
		l, err := s.Link(s.ctx)
		if err != nil {
			return
		}
		before := ses.position()
		err = s.speak(ses, l)
		if err == nil || ses.position() != before {
			backOff, failures = firstBackOff, 0
		}
		if err == nil {
			continue
		}
		if s.ctx.Err() != nil {
			return
		}
		if !spared && errors.Is(err, unix.ENOSPC) {
			spared = true
			defer s.lend()()
		}
		if s.uses(l) { // else it was let go of
			s.log.Warn("session interrupted", "session", ses.id, "err", err)
		}
		if !isDone(l) && !errors.Is(err, errNode) && !isFull(ses, err) {
			failures++
		}
		if failures >= maxFailures {
			s.giveUp(ses, space.Errorf(space.CodeGuest, "the guest broke off the session %d times, and it can't go on: %w", failures, err))
			return
		}
		s.pause(l, backOff)
		backOff = min(2*backOff, longestBackOff)
	}
}

// lend gives a session room for its next tries: for spareHeld, or until giveBack is called.
func (s *Set) lend() (giveBack func()) {
	done := sync.OnceFunc(s.limits.Spare())
	t := time.AfterFunc(spareHeld, done)
	return func() { t.Stop(); done() }
}

// giveUp loses one session alone. One that has ended already has its end; if the guest wasn't told to forget it, nobody was told of that either.
func (s *Set) giveUp(ses *Session, why *space.Error) {
	untold := ses.needsGuest()
	lost, err := ses.lose(why)
	if err != nil {
		s.log.Warn("can't write down that a session is lost", "session", ses.id, "err", err)
	}
	if untold {
		s.limits.Ends.add(ses)
	}
	if lost {
		s.retention.add(ses)
	}
}

// isFull tells whether the guest has too many sessions for one that hasn't started: it has ended some that the node still writes down.
func isFull(ses *Session, err error) bool {
	var reset *link.ResetError
	started, _, _, _ := ses.outcome()
	return started == nil && errors.As(err, &reset) && reset.Remote && reset.Code == link.CodeRefused
}

// speak says the next thing that the guest has to hear of a session.
func (s *Set) speak(ses *Session, l *link.Link) error {
	if !ses.live() {
		s.limits.Ends.add(ses)
		return ses.forget(s.ctx, l)
	}
	if err := ses.converse(s.ctx, l); err != nil {
		return err
	}
	s.retention.add(ses)
	return nil
}

// pause waits before the next try; a dead link has nothing to wait for.
func (s *Set) pause(l *link.Link, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.Done():
	case <-s.ctx.Done():
	}
}

// Link waits for a link to the guest that isn't dead.
func (s *Set) Link(ctx context.Context) (*link.Link, error) {
	for {
		s.mu.Lock()
		l, changed, lost := s.link, s.linked, s.lost
		s.mu.Unlock()
		switch {
		case lost != nil:
			return nil, lost
		case l != nil && !isDone(l):
			return l, nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// uses reports whether l is the sessions' link.
func (s *Set) uses(l *link.Link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link == l
}

func isDone(l *link.Link) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}
