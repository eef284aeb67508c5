// Package peer connects the platform's processes over unix sockets on which each side checks who the other is.
//
// A listener accepts only connections from the uids that it names, by SO_PEERCRED; a dialer talks only to the uid that it expects
// behind the socket. File permissions guard the same paths once more. The protocol above is HTTP/2 without TLS, as Connect uses it.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainTimeout is how long a server that was told to stop waits for its requests before it cuts them.
const drainTimeout = 5 * time.Second

// headerTimeout bounds how long a peer may take over a request's header.
const headerTimeout = 10 * time.Second

// dialTimeout bounds a connect; the other side is on this machine.
const dialTimeout = 5 * time.Second

// streamBuffer bounds in bytes what a client keeps of one answer that its reader hasn't taken yet; the server waits beyond it.
const streamBuffer = 256 << 10

// Limits of one connection to a server. A client opens another one when it has maxRequests open on each.
const (
	maxRequests   = 250
	requestBuffer = 128 << 10 // bytes of one request's body that its handler hasn't taken yet; the client waits beyond it
)

// serverHTTP2 gives the connection's buffer room for all requests' own, so that one whose handler doesn't take its body stalls no other.
var serverHTTP2 = http.HTTP2Config{
	MaxConcurrentStreams: maxRequests, MaxReceiveBufferPerStream: requestBuffer, MaxReceiveBufferPerConnection: maxRequests * requestBuffer,
}

// Credentials returns the pid and uid of the process at the other end, as they were when it connected or listened.
func Credentials(c syscall.Conn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	if credErr != nil {
		return nil, fmt.Errorf("read peer credentials: %w", credErr)
	}
	return cred, nil
}

// Listener is a unix listener that refuses peers of other uids.
type Listener struct {
	*net.UnixListener
	allow []int
}

// Listen makes a socket at path, replacing one that a dead process left. Group members may connect to it; of those, only the
// allowed uids are accepted. The directory must exist and belong to the caller.
func Listen(path string, allow ...int) (*Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // a successor may have replaced the file already
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &Listener{UnixListener: l, allow: allow}, nil
}

// Accept waits for a connection of an allowed peer; others are closed and logged.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		cred, err := Credentials(c)
		if err == nil && slices.Contains(l.allow, int(cred.Uid)) {
			return c, nil
		}
		c.Close()
		slog.Warn("refused a peer", "socket", l.Addr().String(), "credentials", cred, "err", err)
	}
}

// Dial connects to a socket whose listener has the given uid.
func Dial(ctx context.Context, path string, uid int) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := connectTo(ctx, path)
	if err != nil {
		return nil, err
	}
	cred, err := Credentials(c)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("dial %s: %w", path, err)
	}
	if int(cred.Uid) != uid {
		c.Close()
		return nil, fmt.Errorf("dial %s: its listener has uid %d, want %d", path, cred.Uid, uid)
	}
	return c, nil
}

// dialPause is the time between two tries to get into a listener's full queue.
const dialPause = 2 * time.Millisecond

// connectTo waits while the queue of those who connect is full, until ctx ends: a unix socket that doesn't block is refused with EAGAIN then, and
// gets no event when there's room.
func connectTo(ctx context.Context, path string) (*net.UnixConn, error) {
	for {
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil, err
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Client returns an HTTP/2 client for one socket; the host part of its URLs is ignored. A request whose context ends is reset at once.
func Client(path string, uid int) *http.Client {
	return &http.Client{Transport: resetting{transport(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return Dial(ctx, path, uid)
	})}}
}

func transport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	t := &http.Transport{DialContext: dial, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer}}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// Serve serves h on l until ctx ends, then waits drainTimeout for open requests and cuts what remains. It returns nil when ctx ended it.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return Drain(ctx, Server(h), l)
}

// Server returns the server that Serve runs.
func Server(h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ConnContext: withUID, Protocols: new(http.Protocols), HTTP2: &serverHTTP2}
	s.Protocols.SetUnencryptedHTTP2(true)
	s.Protocols.SetHTTP1(true)
	return s
}

// Drain runs a server on l until ctx ends; requests see their own contexts end then, so that streams can say goodbye.
func Drain(ctx context.Context, s *http.Server, l net.Listener) error {
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	s.BaseContext = func(net.Listener) context.Context { return requests }
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	cancelRequests()
	if err := s.Shutdown(drain); err != nil {
		s.Close()
	}
	<-failed
	return nil
}
