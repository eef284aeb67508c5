package watch

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mask is what the kernel is asked for.
const mask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_DELETE_SELF |
	unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// readBytes is how much is read at once. An event has 16 bytes and a name of at most 255.
const readBytes = 16 << 10

// notice is one event of the kernel.
type notice struct {
	wd     int32
	mask   uint32
	cookie uint32 // pairs the two halves of a move
	name   string // in the directory; "" for the directory itself
}

func (n notice) has(bits uint32) bool { return n.mask&bits != 0 }

// queue is the kernel's queue of events for one watch.
type queue struct {
	f   *os.File
	buf []byte
}

func openQueue() (*queue, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &queue{f: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, readBytes)}, nil
}

// add watches a directory. Errors are the system's.
func (q *queue) add(path string, flags uint32) (wd int32, err error) {
	err = q.control(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, path, mask|flags)
		wd = int32(n)
		return err
	})
	return wd, err
}

// remove stops watching a directory.
func (q *queue) remove(wd int32) {
	q.control(func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
}

// empty reports whether everything that has happened until now was read.
func (q *queue) empty() bool {
	left := 0
	err := q.control(func(fd int) (err error) {
		left, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	return err == nil && left == 0
}

func (q *queue) control(call func(fd int) error) error {
	raw, err := q.f.SyscallConn()
	if err != nil {
		return err
	}
	var called error
	if err := raw.Control(func(fd uintptr) { called = call(int(fd)) }); err != nil {
		return err
	}
	return called
}

// read waits for events.
func (q *queue) read() ([]notice, error) {
	n, err := q.f.Read(q.buf)
	if err != nil {
		return nil, err
	}
	return parse(q.buf[:n])
}

// errMalformed is what the kernel never sends.
var errMalformed = errors.New("a malformed event")

// parse cuts what was read into events.
func parse(b []byte) ([]notice, error) {
	var out []notice
	for len(b) > 0 {
		if len(b) < unix.SizeofInotifyEvent {
			return out, errMalformed
		}
		length := uint64(binary.NativeEndian.Uint32(b[12:]))
		if length > uint64(len(b)-unix.SizeofInotifyEvent) {
			return out, errMalformed
		}
		name, rest := b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], b[unix.SizeofInotifyEvent+length:]
		out = append(out, notice{
			wd: int32(binary.NativeEndian.Uint32(b)), mask: binary.NativeEndian.Uint32(b[4:]), cookie: binary.NativeEndian.Uint32(b[8:]),
			name: strings.TrimRight(string(name), "\x00"),
		})
		b = rest
	}
	return out, nil
}
