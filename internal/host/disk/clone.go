package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// cloneMode lets a machine's VMM, and nobody else, use its files.
const cloneMode = 0o600

// Clone makes dst a copy of the regular file src that shares its blocks until one of them is changed, and gives it to a uid. Both are on
// one btrfs file system. It fails if dst is there already, and leaves none behind when it fails. It isn't synced: who says
// that it's there does that.
//
// What src has in the page cache is written out first, which takes long for a file that was just written: sync that one beforehand.
func Clone(src, dst string, uid int) (err error) {
	from, err := os.OpenFile(src, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("clone a file: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, cloneMode)
	if err != nil {
		return fmt.Errorf("clone %s: %w", src, err)
	}
	defer func() {
		err = errors.Join(err, to.Close())
		if err != nil {
			os.Remove(dst)
		}
	}()
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		return fmt.Errorf("clone %s to %s: %w", src, dst, err)
	}
	if err := to.Chown(uid, uid); err != nil {
		return fmt.Errorf("clone %s: %w", src, err)
	}
	return nil
}

// CreateSubvolume makes an empty subvolume: a directory that can be made read-only and deleted as a whole.
func CreateSubvolume(dir string) error { return btrfs.Create(dir) }

// SetReadOnly makes a subvolume read-only, for root too, and durable with everything in it. It can only be renamed within its parent directory after
// that. It waits for one commit of the whole file system: what is in the subvolume had better be synced before.
func SetReadOnly(dir string) error {
	if err := btrfs.SetReadOnly(dir, true); err != nil {
		return fmt.Errorf("seal %s: %w", dir, err)
	}
	if err := btrfs.Sync(dir); err != nil {
		return fmt.Errorf("seal %s: %w", dir, err)
	}
	return nil
}

// DeleteSubvolume deletes a subvolume with all that's in it, read-only or not. None there is no error; a directory of another kind is one.
func DeleteSubvolume(dir string) error { return btrfs.Delete(dir) }

// Sync makes everything durable on the file system that a path's directory is on.
func Sync(path string) error { return btrfs.Sync(filepath.Dir(path)) }
