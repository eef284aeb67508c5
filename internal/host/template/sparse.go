package template

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// blockBytes is the unit in which zeroes are found: a page of a guest.
const blockBytes = 4096

// readBytes is how much is read at once.
const readBytes = 1 << 20

// seal makes holes of a file's zeroes, writes what remains to the disk and returns what the manifest says of it.
func seal(path string) (fileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fileInfo{}, err
	}
	defer f.Close()
	info, err := scan(f, false)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fileInfo{}, fmt.Errorf("seal %s: %w", path, err)
	}
	return info, nil
}

// digest is what seal returned as a file's SHA256, of what the file holds now.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := scan(f, true)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return info.SHA256, nil
}

// scan goes through a file and makes holes of its zeroes, unless they're to be left alone.
func scan(f *os.File, keep bool) (fileInfo, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fileInfo{}, err
	}
	s := sealer{file: f, keep: keep, sum: sha256.New(), buf: make([]byte, readBytes)}
	if err := s.extents(size); err != nil {
		return fileInfo{}, err
	}
	return fileInfo{Bytes: size, Data: s.data, SHA256: hex.EncodeToString(s.sum.Sum(nil))}, nil
}

// sealer goes through a file once. Its digest covers each block that isn't zero, with its number, so that it doesn't depend on where the
// holes are.
type sealer struct {
	file *os.File
	keep bool // leave zero blocks alone
	sum  hash.Hash
	data int64
	buf  []byte
}

// extents goes through the parts of the file that aren't holes.
func (s *sealer) extents(size int64) error {
	return sparse.Data(s.file, size, func(start, end int64) error { return s.extent(start/blockBytes*blockBytes, end) })
}

func (s *sealer) extent(start, end int64) error {
	for at := start; at < end; at += int64(len(s.buf)) {
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
			s.add(at, b[:n])
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

func (s *sealer) add(at int64, block []byte) {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], uint64(at/blockBytes))
	s.sum.Write(number[:])
	s.sum.Write(block)
	s.data += int64(len(block))
}
