package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/ring"
	"github.com/space-platform/space/internal/peer"
)

// Limits bounds what the sessions of one sandbox may use on the node.
type Limits struct {
	RingBytes int64 // kept output of one session; 0: ring.DefaultLimit
	KeptBytes int64 // kept output of all ended sessions, beyond which the oldest lose theirs; 0: DefaultKeptBytes
	Ends      *Ends // learns how sessions end; nil: nobody asks

	Spare func() (done func()) // gives a session that has found no room some that is kept for it, until it's done; nil: none is kept
}

func (l Limits) orDefaults() Limits {
	out := Limits{RingBytes: cmp.Or(l.RingBytes, ring.DefaultLimit), KeptBytes: cmp.Or(l.KeptBytes, DefaultKeptBytes), Ends: l.Ends, Spare: l.Spare}
	if out.Spare == nil {
		out.Spare = func() func() { return func() {} }
	}
	return out
}

// Limits that nobody changes.
const (
	DefaultKeptBytes = 256 << 20
	maxLive          = 128     // running at the same time; a guest and a link carry some more
	maxSessions      = 100_000 // in an execution's life: each leaves a directory behind, so that it never starts again
)

// Set holds the sessions of one execution.
type Set struct {
	dir       string
	limits    Limits
	log       *slog.Logger
	ctx       context.Context // ends all pumps
	cancel    context.CancelFunc
	pumps     sync.WaitGroup
	retention *retention
	over      func() // nil, or called when the execution is over

	mu       sync.Mutex // guards what follows
	sessions map[string]*Session
	link     *link.Link
	linked   chan struct{} // closed and replaced when link changes
	refusal  *space.Error  // why no session starts any more; nil: it may
	lost     *space.Error  // why the execution is over; nil: it isn't
	closed   bool
}

// Open reads the sessions in dir, which it makes if need be. Those that haven't ended go on as soon as there is a link. An unreadable session
// is dropped: only a power loss makes one, and its machine died then too.
func Open(dir string, limits Limits, log *slog.Logger) (*Set, error) {
	limits = limits.orDefaults()
	s, ended, err := open(dir, limits, &retention{limit: limits.KeptBytes, log: log}, log)
	if err != nil {
		return nil, err
	}
	s.retention.fill(ended)
	return s, nil
}

// open also returns the sessions that have ended, which the caller gives to the retention.
func open(dir string, limits Limits, retention *retention, log *slog.Logger) (s *Set, ended []*Session, err error) {
	s = &Set{dir: dir, limits: limits, log: log, retention: retention, sessions: map[string]*Session{}, linked: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("open sessions: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open sessions: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			s.load(e.Name())
		}
	}
	over := new(routev1.Error)
	if is, err := readMessage(dir, overFile, over); err != nil {
		log.Warn("can't read why an execution is over", "err", err)
		s.lost = space.Errorf(space.CodeSessionLost, "the session's execution is over")
	} else if is {
		s.lost = lostError(over)
	}
	for _, ses := range s.sessions {
		switch {
		case s.lost != nil: // and a power loss took how it ended
			untold := ses.needsGuest()
			if _, err := ses.lose(endUnknown(s.lost)); err != nil {
				log.Warn("can't write down that a session is lost", "session", ses.id, "err", err)
			}
			if untold {
				limits.Ends.add(ses)
			}
		case ses.needsGuest():
			s.pumps.Go(func() { s.pump(ses) })
		}
		if !ses.live() {
			ended = append(ended, ses)
		}
	}
	return s, ended, nil
}

func (s *Set) load(name string) {
	ses, err := load(s.dir, name, s.limits.RingBytes)
	if err != nil || ses == nil {
		s.log.Warn("dropped a session that was never whole", "session", name, "err", err)
		os.RemoveAll(filepath.Join(s.dir, name))
		return
	}
	s.sessions[ses.id] = ses
}

// Use makes l the link of all sessions; those that need the guest go on over it, and wait while it's nil.
func (s *Set) Use(l *link.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	close(s.linked)
	s.linked = make(chan struct{})
}

// Refuse says that no session starts any more; those that are there go on.
func (s *Set) Refuse(why *space.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = why
}

// End says that the execution is over: no session starts any more, and those that haven't ended are lost. What was kept can still be read.
// It returns when no pump writes any more. That the execution is over is on file last: a life that doesn't come so far leaves the rest to the next
// one.
func (s *Set) End(why *space.Error) {
	s.mu.Lock()
	first := s.lost == nil
	if first {
		s.lost = why
	}
	s.mu.Unlock()
	s.cancel()
	s.pumps.Wait()
	for _, ses := range s.all() {
		s.giveUp(ses, endUnknown(why))
	}
	if !first {
		return
	}
	if err := writeMessage(s.dir, overFile, peer.ErrorMessage(why)); err != nil {
		s.log.Error("can't write down that the sessions' execution is over", "err", err)
	}
	if s.over != nil {
		s.over()
	}
}

// endUnknown is why a session of an execution that is over has no exit. After a stop that's an exception: all have ended, and the guest didn't come to
// tell how, or with what output.
func endUnknown(why *space.Error) *space.Error {
	if why.Code != space.CodeConflict {
		return why
	}
	return space.Errorf(space.CodeSessionLost, "the sandbox was stopped, and its guest didn't tell how the session ended; its last output may be missing")
}

// all returns the sessions in no order.
func (s *Set) all() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// has reports whether a session is one of the execution's.
func (s *Set) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sessions[id]
	return ok
}

// isOver reports whether the execution is over.
func (s *Set) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

// remove removes an ended session with its files. The execution is over, so it never starts again.
func (s *Set) remove(ses *Session) error {
	s.mu.Lock()
	delete(s.sessions, ses.id)
	s.mu.Unlock()
	ses.close()
	return os.RemoveAll(ses.dir)
}

// Settle returns when all sessions have ended and the guest has forgotten them. Nothing may be started meanwhile.
func (s *Set) Settle(ctx context.Context) error {
	settled := make(chan struct{})
	go func() {
		s.pumps.Wait() // ends with Close at the latest
		close(settled)
	}()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the sessions to end: %w", context.Cause(ctx))
	}
}

// drainBytes is what a guest may still have of a session's output when its process has ended: 256 KiB of its own, and two pipes of 64 KiB. Only
// a hostile one has more.
const drainBytes = 1 << 20

// Drain is Settle for sessions whose processes have all ended: what the guest still has is kept though a client reads slowly.
func (s *Set) Drain(ctx context.Context) error {
	for _, ses := range s.all() {
		if !ses.live() {
			continue
		}
		log, err := ses.log()
		if err != nil {
			return err
		}
		log.Extend(drainBytes)
	}
	return s.Settle(ctx)
}

// Close stops all pumps and lets go of the files: the daemon is stopping, or the execution's directory is about to go. Whoever is attached
// must have been told before.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.pumps.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ses := range s.sessions {
		ses.close()
	}
}
