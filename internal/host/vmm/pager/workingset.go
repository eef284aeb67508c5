package pager

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// RecordTime is for how long pages are noted that a machine asks for, from the first on: until its guest answers, and what it does first.
	RecordTime = 5 * time.Second
	// maxWorkingSet bounds a working set, in pages. Each brings its surroundings along (see chunkBytes): that's up to 4 GiB.
	maxWorkingSet = 64 << 10
)

// The format of a working set's file: magic, digest of what names the snapshot, bytes of its memory, how many pages; each page's number, in the order
// in which they are to come; a digest of all that. Numbers are big-endian.
const (
	setMagic  = "SPACE-WORKING-SET-1\n"
	setHeader = len(setMagic) + sha256.Size + 8 + 4
	setPage   = 4
	maxSet    = setHeader + maxWorkingSet*setPage + sha256.Size
)

// encodeSet writes down the working set of a snapshot whose memory has so many bytes.
func encodeSet(set []uint32, snapshot string, memory int64) []byte {
	name := sha256.Sum256([]byte(snapshot))
	b := append([]byte(setMagic), name[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(memory))
	b = binary.BigEndian.AppendUint32(b, uint32(len(set)))
	for _, page := range set {
		b = binary.BigEndian.AppendUint32(b, page)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// parseSet reads a working set, which must be that snapshot's and whole.
func parseSet(b []byte, snapshot string, memory int64) ([]uint32, error) {
	if len(b) < setHeader+sha256.Size || string(b[:len(setMagic)]) != setMagic {
		return nil, errors.New("it's no working set")
	}
	body, sum := b[:len(b)-sha256.Size], sha256.Sum256(b[:len(b)-sha256.Size])
	if !bytes.Equal(sum[:], b[len(body):]) {
		return nil, errors.New("it isn't whole")
	}
	name, rest := sha256.Sum256([]byte(snapshot)), body[len(setMagic):]
	if !bytes.Equal(name[:], rest[:sha256.Size]) {
		return nil, errors.New("it's another snapshot's")
	}
	rest = rest[sha256.Size:]
	if got := binary.BigEndian.Uint64(rest); got != uint64(memory) {
		return nil, fmt.Errorf("it's of a memory of %d bytes, not %d", got, memory)
	}
	count, list := binary.BigEndian.Uint32(rest[8:]), rest[12:]
	if count > maxWorkingSet || len(list) != int(count)*setPage {
		return nil, fmt.Errorf("it says that it has %d pages, and has %d bytes of them", count, len(list))
	}
	set := make([]uint32, count)
	for i := range set {
		set[i] = binary.BigEndian.Uint32(list[i*setPage:])
		if int64(set[i])*pageBytes >= memory {
			return nil, fmt.Errorf("it has page %d, which there isn't", set[i])
		}
	}
	return set, nil
}

func readSet(f *os.File, snapshot string, memory int64) ([]uint32, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, int64(maxSet+1)))
	if err != nil {
		return nil, err
	}
	return parseSet(b, snapshot, memory)
}

// RecordSuffix ends the name of a working set's file while it's being recorded. Who does so holds a lock on it, which ends with his last descriptor.
const RecordSuffix = ".new"

// openSet opens a snapshot's working set to read it; or, if there is none that is any good, a file to record one. Both are nil if somebody is recording
// it. No trouble with it keeps a machine from being loaded: it's logged.
func openSet(path, snapshot string, memory int64) (set, record *os.File) {
	if path == "" {
		return nil, nil
	}
	set, err := openGood(path, snapshot, memory)
	if errors.Is(err, fs.ErrNotExist) {
		set, record, err = openRecord(path, snapshot, memory)
	}
	if err != nil {
		slog.Warn("a snapshot's working set is of no use", "path", path, "err", err)
	}
	return set, record
}

// openGood opens a working set if it's good, and removes it otherwise.
func openGood(path, snapshot string, memory int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := readSet(f, snapshot, memory); err != nil {
		f.Close()
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return f, nil
}

// openRecord opens the file of a recording: a finished one becomes the working set, an abandoned one begins anew.
func openRecord(path, snapshot string, memory int64) (set, record *os.File, err error) {
	f, err := os.OpenFile(path+RecordSuffix, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil, f.Close()
	}
	if err == nil {
		if _, perr := readSet(f, snapshot, memory); perr == nil {
			set, err := openGood(path+RecordSuffix, snapshot, memory) // not to write
			return set, nil, errors.Join(err, f.Close(), os.Rename(path+RecordSuffix, path))
		}
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return nil, f, nil
}

// writeSet writes a working set to the file of a recording.
func writeSet(f *os.File, set []uint32, snapshot string, memory int64) error {
	if _, err := f.WriteAt(encodeSet(set, snapshot, memory), 0); err != nil {
		return err
	}
	return f.Sync()
}
