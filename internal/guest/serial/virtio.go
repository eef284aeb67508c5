// Package serial opens the byte stream that a guest's link runs over: a virtio-serial port in a machine, a unix socket in tests.
//
// Both behave alike: the host comes and goes without the guest being told, Read waits for it, Write waits for it, and nothing but Close ends them.
package serial

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PortName is what the host calls the link's port.
const PortName = "space.link"

const (
	ports = "/sys/class/virtio-ports" // one directory a port, with its name in a file
	look  = 10 * time.Millisecond     // between looks for the port
)

// Virtio is an opened virtio-serial port. It's opened once and never again: closing it would throw away what the host has sent already.
type Virtio struct {
	file *os.File
	port syscall.RawConn
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
	// Without blocking Go's poller waits. A read that blocks would hold the scheduler's only P until it's taken away after 10 to 20 ms, and whatever
	// else is to run waits for that: the answer to what was read, first of all.
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the link's port: %w", err)
	}
	port, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open the link's port: %w", err)
	}
	return &Virtio{file: f, port: port}, nil
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

// Read waits for bytes from the host. While no host is connected the kernel says that the end is reached; it tells of what comes later.
func (v *Virtio) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	perr := v.port.Read(func(fd uintptr) bool {
		n, err = again(unix.Read, fd, b)
		return n > 0 || err != nil
	})
	return n, cmp.Or(perr, os.NewSyscallError("read", err))
}

// Write writes all of b, and waits while the host isn't there or doesn't read.
func (v *Virtio) Write(b []byte) (written int, err error) {
	perr := v.port.Write(func(fd uintptr) bool {
		for written < len(b) && err == nil {
			n := 0
			if n, err = again(unix.Write, fd, b[written:]); n == 0 && err == nil {
				return false
			}
			written += n
		}
		return true
	})
	return written, cmp.Or(perr, os.NewSyscallError("write", err))
}

// again makes a system call that doesn't block; 0 bytes if it would.
func again(call func(int, []byte) (int, error), fd uintptr, b []byte) (int, error) {
	for {
		n, err := call(int(fd), b)
		switch err {
		case nil:
			return n, nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// Close ends Read and Write. The descriptor stays open: the machine has only this port, and ends with it.
func (v *Virtio) Close() error { return v.file.SetDeadline(time.Unix(1, 0)) }
