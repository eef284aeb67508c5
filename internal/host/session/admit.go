package session

import (
	"errors"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// find returns the session of an id, which it reserves unless the caller has seen it start, or has nothing to start.
func (s *Set) find(id string, spec *sessionv1.Spec, seen bool) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses, ok := s.sessions[id]; ok {
		return ses, nil
	}
	if spec == nil {
		return nil, errNotKept(id)
	}
	if err := s.admit(id, seen); err != nil {
		return nil, err
	}
	ses, err := reserve(s.dir, id, spec, s.limits.RingBytes)
	if errors.Is(err, unix.ENOSPC) {
		done := s.limits.Spare()
		ses, err = reserve(s.dir, id, spec, s.limits.RingBytes)
		done()
	}
	if err != nil {
		return nil, err
	}
	s.sessions[id] = ses
	s.pumps.Go(func() { s.pump(ses) })
	return ses, nil
}

// admit says why a session can't begin.
func (s *Set) admit(id string, seen bool) error {
	live := 0
	for _, ses := range s.sessions {
		if ses.live() {
			live++
		}
	}
	switch {
	case s.lost != nil:
		return s.lost
	case s.refusal != nil:
		return s.refusal
	case s.closed:
		return space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
	case seen:
		return space.FieldErrorf("from_offset", "session %s hasn't started, so nothing of it has been received: leave it out", id)
	case live >= maxLive:
		return space.Errorf(space.CodeConflict, "the sandbox runs %d sessions, which is the limit at one time: end one, or wait until one has ended", maxLive)
	case len(s.sessions) >= maxSessions:
		return space.Errorf(space.CodeConflict, "the sandbox has had %d sessions, which is the limit; create a new one", maxSessions)
	}
	return nil
}

// Start starts a session that nobody is attached to yet, unless the execution knows it.
func (s *Set) Start(id string, spec *sessionv1.Spec) error {
	_, err := s.find(id, spec, false)
	return err
}
