package pager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Source is where a machine's pages come from.
type Source interface {
	// Fetch reads whole pages at an offset into buf, as many from its beginning as are of one kind: with data, or nothing but zeros, for which buf
	// isn't touched. It returns how many bytes that are, at least a page's. It may be called from any goroutine.
	Fetch(ctx context.Context, buf []byte, offset int64) (n int, zeros bool, err error)
}

// file is a local file. Its holes are zeros.
type file struct {
	f     *os.File
	bytes int64
}

// newFile takes a file of so many bytes.
func newFile(f *os.File, bytes int64) (file, error) {
	s := file{f: f, bytes: bytes}
	return s, s.whole()
}

// whole returns an error if the file is shorter than it was: what was cut off reads as a hole.
func (s file) whole() error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.bytes {
		return fmt.Errorf("the memory's file has %d bytes, want %d", info.Size(), s.bytes)
	}
	return nil
}

func (s file) Fetch(_ context.Context, buf []byte, offset int64) (n int, zeros bool, err error) {
	length := int64(len(buf))
	data, err := s.seek(offset, unix.SEEK_DATA)
	if err != nil {
		return 0, false, err
	}
	if data = data &^ (pageBytes - 1); data > offset {
		return int(min(data-offset, length)), true, s.whole()
	}
	hole, err := s.seek(offset, unix.SEEK_HOLE)
	if err != nil {
		return 0, false, err
	}
	hole = (hole + pageBytes - 1) &^ (pageBytes - 1)
	if length = min(length, hole-offset); length <= 0 {
		return 0, false, errors.New("the memory's file is being changed")
	}
	if _, err := s.f.ReadAt(buf[:length], offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, false, err
	}
	return int(length), false, nil
}

// seek finds the next data or hole. After the last data there's a hole up to the end.
func (s file) seek(offset int64, whence int) (found int64, err error) {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) { found, err = unix.Seek(int(fd), offset, whence) })
	switch {
	case cerr != nil:
		return 0, cerr
	case errors.Is(err, unix.ENXIO):
		return s.bytes, s.whole()
	case errors.Is(err, unix.EINVAL) && whence == unix.SEEK_DATA: // a file system that knows no holes
		return offset, nil
	case errors.Is(err, unix.EINVAL):
		return s.bytes, nil
	}
	return found, err
}
