package serial

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// Socket is a listening socket that behaves like a virtio-serial port: one host at a time, a new one ends the one before, and what is
// written to one that goes away is lost.
type Socket struct {
	l listener

	mu      sync.Mutex
	conn    io.ReadWriteCloser
	changed chan struct{} // closed and replaced when conn changes or the socket is closed
	closed  bool
	accepts sync.WaitGroup
}

// listener is where hosts connect.
type listener interface {
	Accept() (io.ReadWriteCloser, error)
	Close() error
}

// netListener is one of package net.
type netListener struct{ net.Listener }

// Accept waits for a host.
func (l netListener) Accept() (io.ReadWriteCloser, error) { return l.Listener.Accept() }

// ListenUnix makes a port of a unix socket at path.
func ListenUnix(path string) (*Socket, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the host: %w", err)
	}
	return NewSocket(l), nil
}

// NewSocket makes a port of a listener, which is the port's from now on.
func NewSocket(l net.Listener) *Socket { return newSocket(netListener{l}) }

func newSocket(l listener) *Socket {
	s := &Socket{l: l, changed: make(chan struct{})}
	s.accepts.Go(s.accept)
	return s
}

// accept lets each new host replace the one before.
func (s *Socket) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.set(c)
	}
}

func (s *Socket) set(c io.ReadWriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = c
	close(s.changed)
	s.changed = make(chan struct{})
}

// host waits for a connected host other than the one that was lost.
func (s *Socket) host(lost io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	for {
		s.mu.Lock()
		conn, changed, closed := s.conn, s.changed, s.closed
		s.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if conn != nil && conn != lost {
			return conn, nil
		}
		<-changed
	}
}

// Read waits for bytes from any host.
func (s *Socket) Read(b []byte) (int, error) {
	var lost io.ReadWriteCloser
	for {
		c, err := s.host(lost)
		if err != nil {
			return 0, err
		}
		if n, _ := c.Read(b); n > 0 || len(b) == 0 {
			return n, nil
		}
		lost = c
	}
}

// Write writes b to the host that is there, after waiting for one.
func (s *Socket) Write(b []byte) (int, error) {
	c, err := s.host(nil)
	if err != nil {
		return 0, err
	}
	c.Write(b)
	return len(b), nil
}

// Close ends everything that waits.
func (s *Socket) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.conn != nil {
			s.conn.Close()
		}
		close(s.changed)
	}
	s.mu.Unlock()
	err := s.l.Close()
	s.accepts.Wait()
	return err
}
