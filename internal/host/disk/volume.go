// Package disk keeps the file system on which templates and the disks of sandboxes are: btrfs, because a copy of a disk or of a memory
// image must cost nothing.
//
// Where the data directory is on btrfs already, the volume is a subvolume of it. Elsewhere it's a btrfs image in a file, which is
// allocated whole when it's made: a host that runs full later can't take blocks away from machines that run. Nothing is kept in memory;
// what exists is what the kernel says, and every call may be repeated.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// Volume is a volume's place and size.
type Volume struct {
	Path    string // where it's mounted, or the subvolume
	Image   string // the file that holds it, unless Path's parent is on btrfs
	Bytes   int64  // of the image; at least MinBytes
	Reserve int64  // what must stay free on the image's file system when it's made; 0: DefaultReserve
}

const (
	// MinBytes is about the smallest file system that mkfs.btrfs makes.
	MinBytes = 128 << 20
	// DefaultReserve is left to the host when an image is allocated.
	DefaultReserve = 2 << 30
)

// mountOptions. nodiscard: a freed block must not be given back to the host, or the image wouldn't be whole any more. Compression stays
// off: memory images are cloned and mapped, and the CPU is what's scarce.
const mountOptions = "nodiscard"

// mountFlags: nothing on the volume is a program or a device for the host.
const mountFlags = unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NOATIME

// Ensure makes the volume if it isn't there and mounts it if it isn't mounted. ErrNoRoom is wrapped if the image doesn't fit.
func (v Volume) Ensure(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(v.Path), 0o755); err != nil {
		return fmt.Errorf("make volume %s: %w", v.Path, err)
	}
	native, err := v.native()
	if err != nil {
		return err
	}
	if native {
		return v.ensureSubvolume()
	}
	if err := os.MkdirAll(v.Path, 0o711); err != nil {
		return fmt.Errorf("make volume %s: %w", v.Path, err)
	}
	mounted, err := v.Mounted()
	if err != nil || mounted {
		return err
	}
	if err := v.ensureImage(ctx); err != nil {
		return err
	}
	if err := v.mount(); err != nil {
		return err
	}
	return v.ensureNames(ctx)
}

// native tells whether the data directory is on btrfs itself.
func (v Volume) native() (bool, error) { return btrfs.Is(filepath.Dir(v.Path)) }

func (v Volume) ensureSubvolume() error {
	is, err := btrfs.IsSubvolume(v.Path)
	if errors.Is(err, os.ErrNotExist) {
		err = btrfs.Create(v.Path)
		is = err == nil
	}
	if err != nil {
		return fmt.Errorf("make volume: %w", err)
	}
	if !is {
		return fmt.Errorf("make volume: %s: %w", v.Path, btrfs.ErrNotSubvolume)
	}
	return os.Chmod(v.Path, 0o711)
}

// Mounted tells whether the volume can be used.
func (v Volume) Mounted() (bool, error) {
	is, err := btrfs.IsSubvolume(v.Path) // the top of a file system is one, too
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return is, err
}

// mount attaches the image and mounts it. The loop device detaches itself when nobody uses it any more, so none is ever left behind,
// whenever this process dies.
func (v Volume) mount() error {
	dev, err := attach(v.Image)
	if err != nil {
		return fmt.Errorf("mount volume %s: %w", v.Path, err)
	}
	defer dev.Close() // the mount holds it from now on
	if err := unix.Mount(dev.Name(), v.Path, "btrfs", mountFlags, mountOptions); err != nil {
		return fmt.Errorf("mount volume %s from %s: %w", v.Path, dev.Name(), err)
	}
	if err := os.Chmod(v.Path, 0o711); err != nil {
		return fmt.Errorf("mount volume %s: %w", v.Path, err)
	}
	return nil
}

// Unmount unmounts the volume and waits until its loop device is detached; a subvolume stays as it is. The image stays. Nothing mounted
// is no error; files that are in use are.
func (v Volume) Unmount(ctx context.Context) error {
	for range maxMounts {
		err := unix.Unmount(v.Path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not a mount point
			return awaitDetached(ctx, v.Image)
		}
		if err != nil {
			return fmt.Errorf("unmount volume %s: %w", v.Path, err)
		}
	}
	return fmt.Errorf("unmount volume %s: it's mounted more than %d times", v.Path, maxMounts)
}

// maxMounts bounds the mounts on one directory.
const maxMounts = 8

// Purge unmounts the volume and removes it with everything on it. The subvolumes in a native one must be gone.
func (v Volume) Purge(ctx context.Context) error {
	if err := v.Unmount(ctx); err != nil {
		return err
	}
	if is, err := btrfs.IsSubvolume(v.Path); err == nil && is {
		if err := btrfs.Delete(v.Path); err != nil {
			return fmt.Errorf("purge volume: %w", err)
		}
	}
	for _, path := range []string{v.Path, v.Image, v.Image + newSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("purge volume: %w", err)
		}
	}
	return nil
}
