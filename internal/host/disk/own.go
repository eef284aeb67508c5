package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
)

// The kernel's interface for a file's extents (Documentation/filesystems/fiemap.rst).
const (
	iocFiemap     = 0xc020660b // FS_IOC_FIEMAP
	extentLast    = 1 << 0
	extentUnknown = 1 << 1 // its place isn't known yet
	extentEncoded = 1 << 3 // it's compressed
	extentInline  = 1 << 9 // it's in the file's own record
	extentShared  = 1 << 13
	extentsAtOnce = 512
	maxExtents    = 1 << 18 // of one file; a disk of 64 GiB in the smallest pieces that matter
)

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

type fiemap struct {
	start, length               uint64
	flags, mapped, count, align uint32
	extents                     [extentsAtOnce]fiemapExtent
}

// ErrFragmented is returned for a file with too many extents to look at.
var ErrFragmented = errors.New("the file has too many extents")

// Own returns how many bytes a file has blocks for that it shares with no other: what a clone takes beyond its source, and what would come back if
// it were deleted. It costs some milliseconds for each thousand extents.
func Own(ctx context.Context, path string) (int64, error) {
	own := int64(0)
	err := ownExtents(ctx, path, func(_, length int64) { own += length })
	return own, err
}

// Allocated returns how many bytes a file has blocks for, alone or with others.
func Allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, fmt.Errorf("measure %s: %w", path, err)
	}
	const statBlock = 512 // the unit of st_blocks
	return st.Blocks * statBlock, nil
}

// OwnParts returns the parts of a file that it shares with no other, in order: what was written over a clone. The file has been synced.
func OwnParts(ctx context.Context, path string) ([]seal.Part, error) {
	var parts []seal.Part
	err := ownExtents(ctx, path, func(offset, length int64) {
		if last := len(parts) - 1; last >= 0 && parts[last].Offset+parts[last].Bytes == offset {
			parts[last].Bytes += length
			return
		}
		parts = append(parts, seal.Part{Offset: offset, Bytes: length})
	})
	return parts, err
}

// ownExtents calls f for each extent of a file that it shares with no other.
func ownExtents(ctx context.Context, path string, do func(offset, length int64)) error {
	return Extents(ctx, path, func(e Extent) {
		if !e.Shared {
			do(e.Offset, e.Bytes)
		}
	})
}

// Extent is a run of blocks of a file.
type Extent struct {
	Offset int64 // in the file
	Place  int64 // on the volume: files that share blocks have the same places; -1: it has none that another file could have
	Bytes  int64
	Shared bool // with another file, or with a snapshot of its subvolume
	Packed bool // it's compressed, or a part of what is: each part has the place of the whole
}

// Extents calls do for each extent of a file, in the order of their offsets. What was written lately has its place when it was synced. ErrFragmented is
// returned after maxExtents of them.
func Extents(ctx context.Context, path string, do func(Extent)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("measure a disk: %w", err)
	}
	defer f.Close()
	start := uint64(0)
	m := new(fiemap)
	for range maxExtents / extentsAtOnce {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("measure %s: %w", path, err)
		}
		*m = fiemap{start: start, length: ^uint64(0) - start, count: extentsAtOnce}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), iocFiemap, uintptr(unsafe.Pointer(m))); errno != 0 {
			return fmt.Errorf("measure %s: %w", path, errno)
		}
		for _, e := range m.extents[:m.mapped] {
			out := Extent{Offset: int64(e.logical), Place: int64(e.physical), Bytes: int64(e.length), Shared: e.flags&extentShared != 0, Packed: e.flags&extentEncoded != 0}
			if e.flags&(extentUnknown|extentInline) != 0 {
				out.Place = -1
			}
			do(out)
			start = e.logical + e.length
			if e.flags&extentLast != 0 {
				return nil
			}
		}
		if m.mapped == 0 {
			return nil
		}
	}
	return fmt.Errorf("measure %s: %w", path, ErrFragmented)
}
