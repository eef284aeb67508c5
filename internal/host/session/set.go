package session

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/ring"
)

// Limits bounds what the sessions of one execution may use on the node.
type Limits struct {
	RingBytes int64 // kept output of one session; 0: ring.DefaultLimit
	KeptBytes int64 // kept output of all ended sessions, beyond which the oldest lose theirs; 0: DefaultKeptBytes
}

// Limits that nobody changes.
const (
	DefaultKeptBytes = 256 << 20
	maxLive          = 128     // running at the same time; a guest and a link carry some more
	maxSessions      = 100_000 // in an execution's life: each leaves a directory behind, so that it never starts again
)

// Set holds the sessions of one execution.
type Set struct {
	dir    string
	limits Limits
	log    *slog.Logger
	ctx    context.Context // ends all pumps
	cancel context.CancelFunc
	pumps  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	sessions map[string]*Session
	ended    []*Session // that still have output, in the order of their ends
	kept     int64      // bytes that those keep
	link     *link.Link
	linked   chan struct{} // closed and replaced when link changes
	lost     *space.Error
	closed   bool
}

// Open reads the sessions in dir, which it makes if need be. Those that haven't ended go on as soon as there is a link. An unreadable session
// is dropped: only a power loss makes one, and its machine died then too.
func Open(dir string, limits Limits, log *slog.Logger) (*Set, error) {
	if limits.RingBytes == 0 {
		limits.RingBytes = ring.DefaultLimit
	}
	if limits.KeptBytes == 0 {
		limits.KeptBytes = DefaultKeptBytes
	}
	s := &Set{dir: dir, limits: limits, log: log, sessions: map[string]*Session{}, linked: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open sessions: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open sessions: %w", err)
	}
	for _, e := range entries {
		s.load(e.Name())
	}
	slices.SortFunc(s.ended, func(a, b *Session) int { return a.exit.GetAt().AsTime().Compare(b.exit.GetAt().AsTime()) })
	for _, ses := range s.sessions {
		if ses.needsGuest() {
			s.pumps.Go(func() { s.pump(ses) })
		}
	}
	return s, nil
}

func (s *Set) load(name string) {
	ses, err := load(s.dir, name, s.limits.RingBytes)
	if err != nil || ses == nil {
		s.log.Warn("dropped a session that was never whole", "session", name, "err", err)
		os.RemoveAll(filepath.Join(s.dir, name))
		return
	}
	s.sessions[ses.id] = ses
	if !ses.live() {
		s.ended = append(s.ended, ses)
		s.kept += ring.Stored(ses.dir)
	}
}

// Use makes l the link of all sessions; those that need the guest go on over it.
func (s *Set) Use(l *link.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	close(s.linked)
	s.linked = make(chan struct{})
}

// Lose says that the execution is gone: sessions that haven't ended never will, and no new one starts. What was kept can still be read.
// It returns when no pump writes any more.
func (s *Set) Lose(why *space.Error) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = why
	}
	s.mu.Unlock()
	s.cancel()
	s.pumps.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ses := range s.sessions {
		ses.lose(s.lost)
	}
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

// shed notes that a session has ended, and drops the output of those that ended first while all of it is too much.
func (s *Set) shed(ses *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ses)
	s.kept += ring.Stored(ses.dir)
	for s.kept > s.limits.KeptBytes && len(s.ended) > 1 {
		oldest := s.ended[0]
		s.ended = s.ended[1:]
		s.kept -= ring.Stored(oldest.dir)
		if err := oldest.shed(); err != nil {
			s.log.Warn("can't drop the output of an ended session", "session", oldest.id, "err", err)
		}
	}
}
