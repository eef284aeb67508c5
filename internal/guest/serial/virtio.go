// Package serial opens the byte stream that a guest's link runs over: a virtio-serial port in a machine, a unix socket in tests.
//
// Both behave alike: the host comes and goes without the guest being told, Read waits for it, Write waits for it, and nothing but Close ends them.
package serial

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// PortName is what the host calls the link's port.
const PortName = "space.link"

const (
	ports = "/sys/class/virtio-ports" // one directory a port, with its name in a file
	look  = 10 * time.Millisecond     // between looks for the port
)

// idle is the time between reads while no host is connected: the kernel offers no event that a blocking reader could wait for.
const idle = 2 * time.Millisecond

// Virtio is an opened virtio-serial port. It's opened once and never again: closing it would throw away what the host has sent already.
type Virtio struct {
	fd     int
	closed atomic.Bool
}

// Open finds the link's port and opens it. A driver that was just loaded may take a moment: it waits for at most the given time.
func Open(wait time.Duration) (io.ReadWriteCloser, error) {
	for until := time.Now().Add(wait); ; time.Sleep(look) {
		if device := find(ports); device != "" {
			return openVirtio(device)
		}
		l, err := listenVsock()
		if err != nil {
			return nil, err
		}
		if l != nil {
			return newSocket(l), nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("no virtio-serial port is named %s, and there's no vsock device", PortName)
		}
	}
}

func openVirtio(device string) (*Virtio, error) {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the link's port %s: %w", device, err)
	}
	return &Virtio{fd: fd}, nil
}

// find returns the device of the link's port, "" if there is none.
func find(class string) string {
	list, _ := os.ReadDir(class) // no driver, no directory
	for _, p := range list {
		name, err := os.ReadFile(path.Join(class, p.Name(), "name"))
		if err == nil && strings.TrimSpace(string(name)) == PortName {
			return "/dev/" + p.Name()
		}
	}
	return ""
}

// Read waits for bytes from the host. It sleeps in the kernel and not in Go's scheduler, since this is what wakes up after a restore.
func (v *Virtio) Read(b []byte) (int, error) {
	pause := unix.NsecToTimespec(int64(idle))
	for !v.closed.Load() {
		n, err := unix.Read(v.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n > 0 || len(b) == 0:
			return n, nil
		default:
			unix.Nanosleep(&pause, nil)
		}
	}
	return 0, os.ErrClosed
}

// Write writes all of b, and waits while the host isn't there or doesn't read.
func (v *Virtio) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, err := unix.Write(v.fd, b[written:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, os.NewSyscallError("write", err)
		}
		written += n
	}
	return written, nil
}

// Close ends Read when it next looks. The descriptor stays open: the machine has only this port, and ends with it.
func (v *Virtio) Close() error {
	v.closed.Store(true)
	return nil
}
