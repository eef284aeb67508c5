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
			if e.flags&extentShared == 0 {
				do(int64(e.logical), int64(e.length))
			}
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
