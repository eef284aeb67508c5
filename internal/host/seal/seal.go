// Package seal makes what belongs to a snapshot durable, and tells it from anything else later: files with digests of their data, a directory that can't be
// changed and gets its name last. Templates and snapshots of sandboxes are kept this way.
package seal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// blockBytes is the unit in which zeroes are found: a page of a guest.
const blockBytes = 4096

// readBytes is how much is read at once.
const readBytes = 1 << 20

// Info is what a manifest says of a file.
type Info struct {
	Bytes  int64  `json:"bytes"`  // its length
	Data   int64  `json:"data"`   // how many of them aren't in a hole, or are in the parts that the digest is of
	SHA256 string `json:"sha256"` // see File and Parts; "" of a file that isn't read
}

// File makes holes of a file's zeroes, writes what remains to the disk and returns what the manifest says of it. The digest is of each block that isn't
// zero, with its number.
func File(ctx context.Context, path string) (Info, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info, err := scan(ctx, f, false)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return Info{}, fmt.Errorf("seal %s: %w", path, err)
	}
	return info, nil
}

// Digest is what File would return of what a file holds now, which is left as it is.
func Digest(ctx context.Context, path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info, err := scan(ctx, f, true)
	if err != nil {
		return Info{}, fmt.Errorf("read %s: %w", path, err)
	}
	return info, nil
}

// scan goes through a file and makes holes of its zeroes, unless they're to be left alone.
func scan(ctx context.Context, f *os.File, keep bool) (Info, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return Info{}, err
	}
	s := newSealer(ctx, f, keep)
	if err := s.extents(size); err != nil {
		return Info{}, err
	}
	return s.sum.Info(size), nil
}

func newSealer(ctx context.Context, f *os.File, keep bool) *sealer {
	return &sealer{ctx: ctx, file: f, keep: keep, sum: NewSum(), buf: make([]byte, readBytes)}
}

// sealer goes through a file once.
type sealer struct {
	ctx  context.Context // ends it between two reads
	file *os.File
	keep bool // leave zero blocks alone
	sum  *Sum
	buf  []byte
}

// extents goes through the parts of the file that aren't holes.
func (s *sealer) extents(size int64) error {
	return sparse.Data(s.file, size, func(start, end int64) error { return s.extent(start/blockBytes*blockBytes, end) })
}

func (s *sealer) extent(start, end int64) error {
	for at := start; at < end; at += int64(len(s.buf)) {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		n, err := s.file.ReadAt(s.buf[:min(int64(len(s.buf)), end-at)], at)
		if err != nil && err != io.EOF {
			return err
		}
		if err := s.blocks(at, s.buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// blocks takes in what was read at an offset, and punches out each run of zero blocks.
func (s *sealer) blocks(at int64, b []byte) error {
	zeroes := int64(0)
	for len(b) > 0 {
		n := min(len(b), blockBytes)
		if bytes.Equal(b[:n], zeroBlock[:n]) {
			zeroes += int64(n)
		} else {
			if err := s.punch(at-zeroes, zeroes); err != nil {
				return err
			}
			zeroes = 0
			s.sum.block(at, b[:n])
		}
		at, b = at+int64(n), b[n:]
	}
	return s.punch(at-zeroes, zeroes)
}

var zeroBlock [blockBytes]byte

func (s *sealer) punch(at, n int64) error {
	if n == 0 || s.keep {
		return nil
	}
	return unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}
