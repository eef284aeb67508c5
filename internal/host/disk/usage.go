package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Usage is how full a volume is, and what's below it.
type Usage struct {
	Bytes     int64 // of the volume's file system
	FreeBytes int64 // of it, for new data

	ImageBytes     int64 // the image's size; 0 without an image
	AllocatedBytes int64 // what of it is allocated below: all of it, or the host can run out under a machine
	BelowBytes     int64 // the file system below the image
	BelowFreeBytes int64
}

// Usage looks at the volume, and at the file system that holds its image.
func (v Volume) Usage() (Usage, error) {
	var u Usage
	var s unix.Statfs_t
	if err := unix.Statfs(v.Path, &s); err != nil {
		return u, fmt.Errorf("look at volume %s: %w", v.Path, err)
	}
	u.Bytes, u.FreeBytes = int64(s.Blocks)*s.Bsize, int64(s.Bavail)*s.Bsize
	var st unix.Stat_t
	err := unix.Lstat(v.Image, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = unix.Statfs(v.Image, &s)
	}
	if err != nil {
		return u, fmt.Errorf("look at volume image %s: %w", v.Image, err)
	}
	const statBlock = 512
	u.ImageBytes, u.AllocatedBytes = st.Size, st.Blocks*statBlock
	u.BelowBytes, u.BelowFreeBytes = int64(s.Blocks)*s.Bsize, int64(s.Bavail)*s.Bsize
	return u, nil
}
