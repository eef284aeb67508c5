package files

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
)

// Limits of what is read, in bytes.
const (
	ChunkBytes   = 32<<10 - 128 // of contents in one message, which then fits one frame of the link
	wholeBytes   = 64 << 10     // a file that says it has no more is read before its size is told: those of /proc and /sys say anything
	maxGenerated = 4 << 20      // that such a file may have
	maxFile      = 16 << 40     // what no real file exceeds
)

func (c *call) read(a *sandboxv1.Read) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	f, st, err := openRegular(p)
	if err != nil {
		return failure.Of("read", p, err)
	}
	defer unix.Close(int(f))
	if st.Size <= wholeBytes {
		return c.readWhole(f, p, st, a)
	}
	if st.Size > maxFile {
		return space.Errorf(space.CodeTooLarge, "read %s: it says that it has %d bytes, more than any file", failure.Clip(p), st.Size)
	}
	from, to, err := span(a, uint64(st.Size))
	if err != nil {
		return err
	}
	if err := c.sendStat(p, st); err != nil {
		return err
	}
	if _, err := unix.Seek(int(f), int64(from), io.SeekStart); err != nil {
		return failure.Of("read", p, err)
	}
	return c.sendRange(f, p, to-from)
}

// openRegular opens a file for reading, through links, and never waits: not for a named pipe's other end, nor for a device.
func openRegular(p string) (contents, *unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Stat(p, st); err != nil {
		return -1, nil, err
	}
	if err := regular(st); err != nil { // opening a device may do something already
		return -1, nil, err
	}
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	if err := errors.Join(unix.Fstat(fd, st), regular(st)); err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	return contents(fd), st, nil
}

// contents reads a descriptor as it is: what has nothing to read right now says so, and isn't waited for.
type contents int

func (c contents) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(c), b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// regular refuses what isn't a file with contents.
func regular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return syscall.EISDIR
	}
	return syscall.ENXIO
}

// span is the part of a file that is asked for.
func span(a *sandboxv1.Read, size uint64) (from, to uint64, err error) {
	if a.GetOffset() > size {
		return 0, 0, &space.Error{Code: space.CodeRange, Field: "offset", Message: fmt.Sprintf("the file has %d bytes", size)}
	}
	if a.GetToEnd() || a.GetLength() > size-a.GetOffset() {
		return a.GetOffset(), size, nil
	}
	return a.GetOffset(), a.GetOffset() + a.GetLength(), nil
}

// readWhole reads a small file at once and then answers.
func (c *call) readWhole(f contents, p string, st *unix.Stat_t, a *sandboxv1.Read) error {
	b, err := io.ReadAll(io.LimitReader(f, maxGenerated+1))
	if err != nil {
		return failure.Of("read", p, err)
	}
	if len(b) > maxGenerated {
		return space.Errorf(space.CodeTooLarge, "read %s: it has more than %d bytes and can't say how many", failure.Clip(p), maxGenerated)
	}
	from, to, err := span(a, uint64(len(b)))
	if err != nil {
		return err
	}
	st.Size = int64(len(b))
	if err := c.sendStat(p, st); err != nil {
		return err
	}
	for b = b[from:to]; len(b) > 0; {
		n := min(len(b), ChunkBytes)
		if err := c.sendData(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sendRange sends the promised number of bytes.
func (c *call) sendRange(r io.Reader, p string, promised uint64) error {
	buf := make([]byte, ChunkBytes)
	for left := promised; left > 0; {
		n, err := r.Read(buf[:min(uint64(len(buf)), left)])
		if n > 0 {
			left -= uint64(n)
			if err := c.sendData(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF && left > 0 {
			return space.Errorf(space.CodeConflict, "read %s: it became %d bytes shorter while it was read", failure.Clip(p), left)
		}
		if err != nil && err != io.EOF {
			return failure.Of("read", p, err)
		}
	}
	return nil
}

func (c *call) sendStat(p string, st *unix.Stat_t) error {
	return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: c.entry(p, st, "")}})
}

func (c *call) sendData(b []byte) error {
	return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Data{Data: b}})
}
