package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/ring"
	"github.com/space-platform/space/internal/peer"
)

// Session is one command in an execution: its files, and who waits for it.
type Session struct {
	id    string
	guest string // the guest's id of it
	dir   string

	away context.Context // ends when it goes on elsewhere, with a leftError
	left context.CancelCauseFunc

	summary  summary
	input    *input
	requests chan request // for the one who is in touch with the guest

	mu        sync.Mutex      // guards what follows
	spec      *sessionv1.Spec // nil once it has ended
	ring      *ring.Ring      // nil until it's needed
	ringLimit int64
	started   *timestamppb.Timestamp // nil until the guest said so
	exit      *sessionv1.Exit        // nil until it ended
	pid       uint32                 // of its process in the guest; 0 if it isn't known
	forgotten bool                   // by the guest
	lost      *space.Error           // why it will never end
	endedAt   time.Time              // about when it was lost
	changed   chan struct{}          // closed and replaced when one of them changes
}

// reserve makes the directory of a new session. Its spec is on file when it returns.
func reserve(root, id string, spec *sessionv1.Spec, ringLimit int64) (*Session, error) {
	s := newSession(id, placeOf(root, id), ringLimit)
	s.take(spec, false)
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserve session %s: %w", id, err)
	}
	if err := writeMessage(s.dir, specFile, spec); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// placeOf is the directory of a session in that of its set.
func placeOf(root, id string) string { return filepath.Join(root, space.HostLabel(id)) }

// load reads a session back. It returns nil for a directory whose session was never started: its writer died before the spec was whole.
func load(root, name string, ringLimit int64) (*Session, error) {
	s := newSession(string(space.PrefixSession)+"_"+name, filepath.Join(root, name), ringLimit)
	spec := new(sessionv1.Spec)
	if ok, err := readMessage(s.dir, specFile, spec); err != nil || !ok {
		return nil, err
	}
	inputEnded, err := readMessage(s.dir, inputEndFile, new(wrapperspb.UInt64Value))
	if err != nil {
		return nil, err
	}
	s.take(spec, inputEnded)
	guest := new(wrapperspb.StringValue)
	if ok, err := readMessage(s.dir, guestFile, guest); err != nil {
		return nil, err
	} else if ok {
		s.guest = guest.GetValue()
	}
	started, exit := new(timestamppb.Timestamp), new(sessionv1.Exit)
	if ok, err := readMessage(s.dir, startedFile, started); err != nil {
		return nil, err
	} else if ok {
		s.started = started
	}
	if ok, err := readMessage(s.dir, exitFile, exit); err != nil {
		return nil, err
	} else if ok {
		s.exit, s.spec, s.input = exit, nil, nil
	}
	if s.forgotten, err = readMessage(s.dir, forgottenFile, new(emptypb.Empty)); err != nil {
		return nil, err
	}
	lost := new(routev1.Error)
	if ok, err := readMessage(s.dir, lostFile, lost); err != nil {
		return nil, err
	} else if ok {
		s.setLost(lostError(lost))
		if info, err := os.Stat(filepath.Join(s.dir, lostFile)); err == nil {
			s.endedAt = info.ModTime()
		}
	}
	return s, nil
}

func lostError(m *routev1.Error) *space.Error {
	return &space.Error{Code: space.Code(m.GetCode()), Message: m.GetMessage()}
}

func newSession(id, dir string, ringLimit int64) *Session {
	s := &Session{id: id, guest: id, dir: dir, ringLimit: ringLimit, requests: make(chan request), changed: make(chan struct{})}
	s.away, s.left = context.WithCancelCause(context.Background())
	return s
}

// take keeps what the session is to run.
func (s *Session) take(spec *sessionv1.Spec, inputEnded bool) {
	s.spec, s.summary = spec, summarize(spec)
	s.input = newInput(spec.GetStdin(), spec.GetOpenStdin() || spec.GetTty() != nil, inputEnded)
}

// log returns the session's ring, opened when it's first needed.
func (s *Session) log() (*ring.Ring, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring != nil {
		return s.ring, nil
	}
	r, err := ring.Open(s.dir, s.ringLimit)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", s.id, err)
	}
	if s.exit != nil || s.lost != nil {
		r.Finish()
	}
	s.ring = r
	return r, nil
}

// setStarted keeps the moment at which the guest started the session, and its process; what is known already stays.
func (s *Session) setStarted(at *timestamppb.Timestamp, pid uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
	if s.started != nil {
		return nil
	}
	if err := writeMessage(s.dir, startedFile, at); err != nil {
		return err
	}
	s.started = at
	s.broadcast()
	return nil
}

// process is the pid of the session's process in the guest; 0 if it isn't known.
func (s *Session) process() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// setExit keeps how the session ended. All its output is in the ring.
func (s *Session) setExit(exit *sessionv1.Exit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeMessage(s.dir, exitFile, exit); err != nil {
		return err
	}
	s.exit, s.spec = exit, nil
	s.ring.Finish()
	s.broadcast()
	return nil
}

// setInputEnd keeps that a stdin that was open was closed, and its length.
func (s *Session) setInputEnd(length uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeMessage(s.dir, inputEndFile, wrapperspb.UInt64(length))
}

func (s *Session) setForgotten() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeMessage(s.dir, forgottenFile, new(emptypb.Empty)); err != nil {
		return err
	}
	s.forgotten = true
	return nil
}

// lose says that the session will never end, unless it has: then it returns false. What has happened has happened, so it holds even if it
// can't be written.
func (s *Session) lose(why *space.Error) (lost bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit != nil || s.lost != nil {
		return false, nil
	}
	err = writeMessage(s.dir, lostFile, peer.ErrorMessage(why))
	s.setLost(why)
	s.broadcast()
	return true, err
}

func (s *Session) setLost(why *space.Error) {
	s.lost, s.endedAt, s.spec, s.input = why, time.Now(), nil, nil
	if s.ring != nil {
		s.ring.Finish()
	}
}

// end is about when the session ended.
func (s *Session) end() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit != nil {
		return s.exit.GetAt().AsTime()
	}
	return s.endedAt
}

// needsGuest reports whether the guest still has to hear something about the session.
func (s *Session) needsGuest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.forgotten && s.lost == nil
}

// position is how far the session's log has come.
func (s *Session) position() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil {
		return 0
	}
	return s.ring.End()
}

// live reports whether the session may still produce output.
func (s *Session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit == nil && s.lost == nil
}

// outcome returns what is known of the session, and a channel that is closed when that changes.
func (s *Session) outcome() (started *timestamppb.Timestamp, exit *sessionv1.Exit, lost *space.Error, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started, s.exit, s.lost, s.changed
}

// shed drops the output of an ended session.
func (s *Session) shed() error {
	log, err := s.log()
	if err != nil {
		return err
	}
	return log.Shed()
}

func (s *Session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring != nil {
		s.ring.Close()
	}
}

func (s *Session) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}
