package ring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segmentSuffix ends the name of a segment file; the offset of its first byte begins it.
const segmentSuffix = ".seg"

// segment is one file of the ring.
type segment struct {
	start uint64 // offset of its first byte
	data  uint64 // bytes of output in it
	size  int64  // bytes of the file
}

func (s segment) end() uint64 { return s.start + s.data }

func (s segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", s.start, segmentSuffix))
}

// scan reads the segments of a directory, oldest first, each with the extent of its whole records. Segments before a hole are
// removed, and so are bytes after the last whole record.
func scan(dir string) ([]segment, error) {
	starts, err := list(dir)
	if err != nil {
		return nil, err
	}
	var out []segment
	for _, start := range starts {
		s, err := measure(dir, start)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].end() != s.start {
			if err := removeSegments(dir, out); err != nil {
				return nil, err
			}
			out = out[:0]
		}
		out = append(out, s)
	}
	return out, nil
}

// list returns the first offsets of the segments of a directory in order.
func list(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read ring: %w", err)
	}
	var starts []uint64
	for _, e := range entries {
		hex, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		start, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read ring: %s isn't the name of a segment", e.Name())
		}
		starts = append(starts, start)
	}
	slices.Sort(starts)
	return starts, nil
}

// measure reads a segment's records and cuts off what follows the last whole one.
func measure(dir string, start uint64) (segment, error) {
	s := segment{start: start}
	b, err := os.ReadFile(s.path(dir))
	if err != nil {
		return s, fmt.Errorf("read ring: %w", err)
	}
	for rest := b; ; {
		_, data, after, err := parseRecord(rest)
		if err != nil {
			break
		}
		s.data += uint64(len(data))
		s.size += int64(len(rest) - len(after))
		rest = after
	}
	if s.size == int64(len(b)) {
		return s, nil
	}
	if err := os.Truncate(s.path(dir), s.size); err != nil {
		return s, fmt.Errorf("cut the torn end of a ring: %w", err)
	}
	return s, nil
}

// Stored returns how many bytes the files of a ring's directory have; 0 if they can't be looked at. It opens none of them.
func Stored(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var n int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), segmentSuffix) {
			n += info.Size()
		}
	}
	return n
}

// Length returns the length of the log of a ring that nobody appends to any more; 0 if it can't be read.
func Length(dir string) uint64 {
	starts, err := list(dir)
	if err != nil || len(starts) == 0 {
		return 0
	}
	last, err := measure(dir, starts[len(starts)-1])
	if err != nil {
		return 0
	}
	return last.end()
}

func removeSegments(dir string, segments []segment) error {
	for _, s := range segments {
		if err := os.Remove(s.path(dir)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("drop the oldest output of a ring: %w", err)
		}
	}
	return nil
}
