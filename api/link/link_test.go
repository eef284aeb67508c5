package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testLimit bounds everything in these tests that waits.
const testLimit = 20 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// socketPair returns two connected stream sockets.
func socketPair(t testing.TB) (host, guest net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conns[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns[0], conns[1]
}

// port is a guest's port, to which hosts connect one after the other, as to a VMM's: bytes of a connection that is gone are lost.
type port struct {
	hosts chan net.Conn
	mu    sync.Mutex
	conn  net.Conn
	ready chan struct{} // closed when conn is set
}

func newPort() *port {
	return &port{hosts: make(chan net.Conn), ready: make(chan struct{})}
}

// Close ends Read once the last host is gone.
func (p *port) Close() error {
	close(p.hosts)
	return nil
}

// dial connects a host.
func (p *port) dial(t testing.TB) net.Conn {
	host, guest := socketPair(t)
	p.hosts <- guest
	return host
}

func (p *port) Read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		c := p.conn
		p.mu.Unlock()
		if c != nil {
			if n, err := c.Read(b); n > 0 || err == nil {
				return n, nil
			}
			p.mu.Lock()
			p.conn, p.ready = nil, make(chan struct{})
			p.mu.Unlock()
			c.Close()
		}
		next, ok := <-p.hosts
		if !ok {
			close(p.ready) // nobody will come: what is written from now on is lost
			return 0, io.EOF
		}
		p.mu.Lock()
		p.conn = next
		close(p.ready)
		p.mu.Unlock()
	}
}

func (p *port) Write(b []byte) (int, error) {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	<-ready
	p.mu.Lock()
	c := p.conn
	p.mu.Unlock()
	if c != nil {
		c.Write(b)
	}
	return len(b), nil
}

func accept(Sync) error { return nil }

func setClock(time.Time) error { return nil }

var quiet = Hooks{Sync: accept, Clock: setClock}

var first = Sync{Execution: "exe_a", Epoch: 1, Adopt: true}

// serveGuest runs a guest on a port and handles its streams with h until the test ends.
func serveGuest(t testing.TB, rw io.ReadWriteCloser, hooks Hooks, h func(context.Context, *Stream)) *Guest {
	g := NewGuest(rw, hooks)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { g.Run() })
	all.Go(func() {
		for {
			s, err := g.Accept(ctx)
			if err != nil {
				return
			}
			all.Go(func() { h(ctx, s) })
		}
	})
	t.Cleanup(func() { cancel(); rw.Close(); all.Wait() })
	return g
}

// echo sends back every message and closes when the host does.
func echo(ctx context.Context, s *Stream) {
	for {
		msg, err := s.Recv(ctx)
		if err == io.EOF {
			s.CloseSend()
			return
		}
		if err != nil || s.Send(ctx, msg) != nil {
			return
		}
	}
}

// connect makes a host's link over a fresh connection.
func connect(t testing.TB, p *port, s Sync) *Link {
	t.Helper()
	l, err := Host(testContext(t), p.dial(t), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestMessagesOfEverySizeComeBack(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	l := connect(t, p, first)
	ctx := testContext(t)
	s, err := l.Open(ctx, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte("first")}
	for _, n := range []int{0, 1, MaxPayload - 1, MaxPayload, MaxPayload + 1, 3 * MaxPayload, Window, MaxMessage} {
		msg := randomBytes(n)
		want = append(want, msg)
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		for _, msg := range want[1:] {
			if err := s.Send(ctx, msg); err != nil {
				t.Error(err)
			}
		}
		s.CloseSend()
	})
	defer sender.Wait()
	for _, msg := range want {
		got, err := s.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, msg) {
			t.Fatalf("got %d bytes, want %d", len(got), len(msg))
		}
	}
	if _, err := s.Recv(ctx); err != io.EOF {
		t.Errorf("after the last message: %v, want EOF", err)
	}
	if err := s.Send(ctx, make([]byte, MaxMessage+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a message over the limit: %v", err)
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}
