package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
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
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("measure a disk: %w", err)
	}
	defer f.Close()
	own, start := int64(0), uint64(0)
	m := new(fiemap)
	for range maxExtents / extentsAtOnce {
		if err := context.Cause(ctx); err != nil {
			return 0, fmt.Errorf("measure %s: %w", path, err)
		}
		*m = fiemap{start: start, length: ^uint64(0) - start, count: extentsAtOnce}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), iocFiemap, uintptr(unsafe.Pointer(m))); errno != 0 {
			return 0, fmt.Errorf("measure %s: %w", path, errno)
		}
		for _, e := range m.extents[:m.mapped] {
			if e.flags&extentShared == 0 {
				own += int64(e.length)
			}
			start = e.logical + e.length
			if e.flags&extentLast != 0 {
				return own, nil
			}
		}
		if m.mapped == 0 {
			return own, nil
		}
	}
	return 0, fmt.Errorf("measure %s: %w", path, ErrFragmented)
}
