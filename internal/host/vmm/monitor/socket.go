package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/peer"
)

const (
	dialFirst   = 500 * time.Microsecond // from the first try to connect to the second; doubled each time
	dialSlowest = 4 * time.Millisecond   // at most
	dialLimit   = 30 * time.Second       // for a context without a deadline
)

// Bind makes a unix socket for a VMM to listen on. It's bound and not listened on: the credentials that a client of the socket sees are those
// of whoever listens, so nobody but the VMM must. Until it does, connecting is refused.
func Bind(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	return f, nil
}

// Dial connects to a socket on which the process listens, or will. Whoever else listens there is not talked to. It tries until the context ends,
// or the process: vmm.ErrGone.
func (p *Process) Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	return p.dial(ctx, path, connect)
}

// DialWithin is Dial for a socket that the process makes itself, at a path in its own root directory. It needn't be there yet.
func (p *Process) DialWithin(ctx context.Context, path string) (*net.UnixConn, error) {
	return p.dial(ctx, path, p.connectWithin)
}

func (p *Process) dial(ctx context.Context, path string, connect func(path string) (*net.UnixConn, error)) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var last error // why the try before didn't succeed
	for wait := dialFirst; ; wait = min(2*wait, dialSlowest) {
		c, err := p.try(path, connect)
		switch {
		case err == nil:
			return c, nil
		case p.Gone():
			return nil, fmt.Errorf("connect to %s: %w", path, vmm.ErrGone)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("connect to %s: %w: %w", path, context.Cause(ctx), cmp.Or(last, err))
		case !passing(err):
			return nil, fmt.Errorf("connect to %s: %w", path, err)
		}
		last = err
		sleep(ctx, wait)
	}
}

// errStranger says that another process listens on a socket: the VMM's parent, before the VMM does.
var errStranger = errors.New("another process listens there")

// passing tells whether an error may go away by itself: nobody listens yet, or the queue of those who connect is full.
func passing(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EAGAIN) || errors.Is(err, errStranger) || errors.Is(err, errNotYet)
}

// errNotYet says that a process hasn't made its socket.
var errNotYet = errors.New("it isn't there yet")

// connect never waits.
func connect(path string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}

// connectWithin walks the path in the process's root directory as it is now: its jailer may still be changing it. No link is followed, since
// it would lead into ours.
func (p *Process) connectWithin(path string) (*net.UnixConn, error) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.id.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(errNotYet, err)
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, path, &how)
	if err != nil {
		return nil, errors.Join(errNotYet, err)
	}
	defer unix.Close(fd)
	return connect(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// try connects once with connect. The process is looked at after the connection's credentials: while it lives, its pid is nobody else's.
func (p *Process) try(path string, connect func(path string) (*net.UnixConn, error)) (*net.UnixConn, error) {
	c, err := connect(path)
	if err != nil {
		return nil, err
	}
	cred, err := peer.Credentials(c)
	if err == nil && (int(cred.Pid) != p.id.PID || int(cred.Uid) != p.uid) {
		err = fmt.Errorf("%w: pid %d, uid %d", errStranger, cred.Pid, cred.Uid)
	}
	if err == nil && p.Gone() {
		err = vmm.ErrGone
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
