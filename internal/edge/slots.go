package edge

import (
	"net"
	"sync"

	space "github.com/space-platform/space"
)

// Limits of attaches at once.
const (
	maxAttaches           = 1024
	maxAttachesPerSession = 8
)

// slots counts the attaches under way.
type slots struct {
	mu       sync.Mutex // guards both counts
	all      int
	sessions map[string]int // by session, of those that have any
}

func newSlots() *slots { return &slots{sessions: map[string]int{}} }

// take admits one more attach, whoever asks; the returned function ends it.
func (s *slots) take() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxAttaches {
		return nil, space.Errorf(space.CodeUnavailable, "the edge serves %d attaches already; try again", maxAttaches)
	}
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
	}, nil
}

// join admits an attach to a session that its token has opened: strangers can't use up a session's share.
func (s *slots) join(session string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session] >= maxAttachesPerSession {
		return nil, space.Errorf(space.CodeQuotaExceeded, "the session has %d attaches already; end one of them", maxAttachesPerSession)
	}
	s.sessions[session]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.sessions[session]--; s.sessions[session] == 0 {
			delete(s.sessions, session)
		}
	}, nil
}

// limitConns accepts at most n connections at once; more wait in the kernel's queue.
func limitConns(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: func() { <-l.slots }}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *limitedConn) Close() error {
	defer c.once.Do(c.release)
	return c.Conn.Close()
}
