package serial

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// maxPending is how many hosts may wait to be accepted: each replaces the one before, so more are of no use.
const maxPending = 8

// vsockListener accepts what the host connects to the link's vsock port.
type vsockListener struct{ f *os.File }

// listenVsock returns the listener, nil if the machine has no vsock device (yet).
func listenVsock() (*vsockListener, error) {
	if !hasVsock() {
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the link's port: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("vsock:%d", link.VsockPort))
	err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: link.VsockPort}))
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, maxPending))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open the link's port: vsock port %d: %w", link.VsockPort, err)
	}
	return &vsockListener{f: f}, nil
}

// hasVsock tells whether a device has given the machine an address. The driver alone doesn't.
func hasVsock() bool {
	f, err := os.Open("/dev/vsock")
	if err != nil {
		return false
	}
	defer f.Close()
	cid, err := unix.IoctlGetUint32(int(f.Fd()), unix.IOCTL_VM_SOCKETS_GET_LOCAL_CID)
	return err == nil && cid > unix.VMADDR_CID_HOST && cid != unix.VMADDR_CID_ANY
}

// Accept waits for the host. Nobody else gets in: a process of this machine that finds a way to connect to it is hung up on.
func (l *vsockListener) Accept() (io.ReadWriteCloser, error) {
	raw, err := l.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	for {
		fd, from, err := acceptOn(raw)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), l.f.Name())
		if vm, ok := from.(*unix.SockaddrVM); ok && vm.CID == unix.VMADDR_CID_HOST {
			return f, nil
		}
		f.Close()
	}
}

// Close ends Accept.
func (l *vsockListener) Close() error { return l.f.Close() }

// rawReader is what of syscall.RawConn is needed.
type rawReader interface {
	Read(f func(fd uintptr) (done bool)) error
}

func acceptOn(raw rawReader) (fd int, from unix.Sockaddr, err error) {
	rerr := raw.Read(func(l uintptr) bool {
		for {
			fd, from, err = unix.Accept4(int(l), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != unix.EINTR && err != unix.ECONNABORTED {
				return err != unix.EAGAIN
			}
		}
	})
	if rerr != nil {
		return -1, nil, rerr
	}
	return fd, from, os.NewSyscallError("accept", err)
}
