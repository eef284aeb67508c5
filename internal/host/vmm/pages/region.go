package pages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
)

// Region is a part of a guest's memory: where a process has it, and where it is in a memory file.
type Region struct {
	Address uint64 `json:"address"`
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"`
}

// CheckRegions sorts regions by their offsets and returns an error unless they are all of a memory of so many bytes, once, in whole pages.
func CheckRegions(regions []Region, memory int64) error {
	slices.SortFunc(regions, func(a, b Region) int {
		if a.Offset < b.Offset {
			return -1
		}
		return 1
	})
	end := int64(0)
	for i, r := range regions {
		switch {
		case r.Bytes <= 0 || r.Bytes%pageBytes != 0 || r.Address%pageBytes != 0:
			return fmt.Errorf("a region of %d bytes at %#x: want whole pages", r.Bytes, r.Address)
		case r.Address > math.MaxInt64 || r.Bytes > memory:
			return fmt.Errorf("a region of %d bytes at %#x: the memory has %d", r.Bytes, r.Address, memory)
		case r.Offset != end:
			return fmt.Errorf("a region is at offset %d of the memory, want %d", r.Offset, end)
		}
		for _, o := range regions[:i] {
			if r.Address < o.Address+uint64(o.Bytes) && o.Address < r.Address+uint64(r.Bytes) {
				return fmt.Errorf("two regions have the address %#x", max(r.Address, o.Address))
			}
		}
		end += r.Bytes
	}
	if end != memory {
		return fmt.Errorf("the regions have %d bytes, the memory %d", end, memory)
	}
	return nil
}

// CopyPresent writes the pages that a process has in its memory over a file, at their places, where the file has something else. The memory is
// anonymous, and a page that nobody has touched isn't there: the file must be a copy of where it would have come from. The process must not run
// guest code meanwhile.
func CopyPresent(ctx context.Context, pid int, regions []Region, to *os.File) error {
	info, err := to.Stat()
	if err != nil {
		return err
	}
	if err := CheckRegions(regions, info.Size()); err != nil {
		return errors.Join(err, errors.New("the file for it must be a copy of what was loaded"))
	}
	buf := make([]byte, chunkPages*pageBytes)
	for _, r := range regions {
		err := changedRuns(pid, r.Address, r.Bytes, func(offset, length int64) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := readRun(pid, r.Address+uint64(offset), buf[:length]); err != nil {
				return err
			}
			_, err := Sparing{to}.WriteAt(buf[:length], r.Offset+offset)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
