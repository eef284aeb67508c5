package pager

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageBytes is the only size of a page that is served.
const pageBytes = 4096

// The kernel's interface (linux/userfaultfd.h): requests, the sizes of messages and their kinds.
const (
	requestWake     = 0x8010aa02
	requestCopy     = 0xc028aa03
	requestZeroPage = 0xc020aa04

	messageBytes = 32

	eventPageFault = 0x12
	eventFork      = 0x13
	eventRemove    = 0x15
	eventUnmap     = 0x16
)

var (
	// errBusy says that the memory's layout is being changed: what has begun must be read first.
	errBusy = errors.New("the machine's memory is being changed")
	// errEnded says that the machine is gone.
	errEnded = errors.New("the machine has ended")
)

// uffd is the VMM's userfaultfd.
type uffd struct{ file *os.File }

// event is a message of the kernel.
type event struct {
	kind       byte
	address    uint64 // of a fault
	start, end uint64 // of what was removed
	fd         int    // of a fork: another one
}

func parseEvent(b []byte) event {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8+8*i:]) }
	e := event{kind: b[0], fd: -1}
	switch e.kind {
	case eventPageFault:
		e.address = word(1)
	case eventRemove, eventUnmap:
		e.start, e.end = word(0), word(1)
	case eventFork:
		e.fd = int(binary.NativeEndian.Uint32(b[8:]))
	}
	return e
}

type copyRequest struct {
	dst, src, length, mode uint64
	done                   int64
}

type zeroRequest struct {
	start, length, mode uint64
	done                int64
}

type wakeRequest struct{ start, length uint64 }

// copy puts pages at an address where there are none. Those that are there stay as they are.
func (u uffd) copy(address uint64, src []byte) error {
	return fill(address, uint64(len(src)), func(offset uint64) (int64, unix.Errno, error) {
		part := src[offset:]
		r := copyRequest{dst: address + offset, src: uint64(uintptr(unsafe.Pointer(&part[0]))), length: uint64(len(part))}
		errno, err := u.request(requestCopy, unsafe.Pointer(&r))
		runtime.KeepAlive(src)
		return r.done, errno, err
	})
}

// zero puts pages of zeros there.
func (u uffd) zero(address, length uint64) error {
	return fill(address, length, func(offset uint64) (int64, unix.Errno, error) {
		r := zeroRequest{start: address + offset, length: length - offset}
		errno, err := u.request(requestZeroPage, unsafe.Pointer(&r))
		return r.done, errno, err
	})
}

// fill calls try for what is still missing until nothing is. The kernel stops at a page that is there, and tells how far it came.
func fill(address, length uint64, try func(offset uint64) (done int64, errno unix.Errno, err error)) error {
	for offset := uint64(0); offset < length; {
		done, errno, err := try(offset)
		switch {
		case err != nil:
			return err
		case done > 0:
			offset += uint64(done)
		case errno == unix.EEXIST:
			offset += pageBytes
		case errno == unix.EAGAIN:
			return errBusy
		case errno == unix.ESRCH:
			return errEnded
		case errno == 0:
			return fmt.Errorf("the kernel put nothing at %#x", address+offset)
		default:
			return fmt.Errorf("put pages at %#x: %w", address+offset, errno)
		}
	}
	return nil
}

// wake lets those go on who wait for pages that are there.
func (u uffd) wake(address, length uint64) error {
	r := wakeRequest{start: address, length: length}
	errno, err := u.request(requestWake, unsafe.Pointer(&r))
	if err == nil && errno != 0 {
		err = fmt.Errorf("wake those who wait for pages at %#x: %w", address, errno)
	}
	return err
}

func (u uffd) request(request uintptr, arg unsafe.Pointer) (errno unix.Errno, err error) {
	raw, err := u.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg))
	})
	return errno, err
}

// read reads messages, as soon as there are any. While one is taken from the kernel l is held, and seen is called before it's let go of.
func (u uffd) read(buf []byte, l sync.Locker, seen func(messages []byte)) error {
	raw, err := u.file.SyscallConn()
	if err != nil {
		return err
	}
	var tryErr error
	try := func(fd uintptr) {
		l.Lock()
		defer l.Unlock()
		var n int
		for n, tryErr = unix.Read(int(fd), buf); tryErr == unix.EINTR; {
			n, tryErr = unix.Read(int(fd), buf)
		}
		if tryErr == nil && (n <= 0 || n%messageBytes != 0) {
			tryErr = fmt.Errorf("a message of %d bytes", n)
		}
		if tryErr == nil {
			seen(buf[:n])
		}
	}
	err = raw.Read(func(fd uintptr) bool {
		try(fd)
		return tryErr != unix.EAGAIN
	})
	if err := cmp.Or(err, tryErr); err != nil {
		return fmt.Errorf("read page faults: %w", err)
	}
	return nil
}
