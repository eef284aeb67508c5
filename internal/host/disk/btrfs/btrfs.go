// Package btrfs asks the kernel for what a btrfs file system does beyond others: cloned files and subvolumes. It holds the ioctls and
// nothing else.
package btrfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNotSubvolume is returned for a directory that is none.
var ErrNotSubvolume = errors.New("not a subvolume")

// subvolumeInode is the inode number of every subvolume's top directory.
const subvolumeInode = 256

// Request numbers and flags, from linux/btrfs.h.
const (
	iocSync           = 0x9408
	iocSubvolCreate   = 0x5000940e
	iocSnapDestroy    = 0x5000940f
	iocSnapCreateV2   = 0x50009417
	iocSubvolGetFlags = 0x80089419
	iocSubvolSetFlags = 0x4008941a
	iocSpaceInfo      = 0xc0109414

	subvolReadOnly = 1 << 1
	groupMetadata  = 1 << 2
)

// maxSpaces bounds the kinds of space of a file system: data, system, metadata and the kernel's own reserve, each with some profiles.
const maxSpaces = 16

// maxName is the longest name of a subvolume, in bytes.
const maxName = 255

// volArgs is struct btrfs_ioctl_vol_args.
type volArgs struct {
	fd   int64
	name [4088]byte
}

// volArgsV2 is struct btrfs_ioctl_vol_args_v2.
type volArgsV2 struct {
	fd      int64
	transID uint64
	flags   uint64
	unused  [4]uint64
	name    [4040]byte
}

// spaceArgs is struct btrfs_ioctl_space_args and what follows it.
type spaceArgs struct {
	slots, total uint64
	spaces       [maxSpaces]struct{ flags, total, used uint64 }
}

// MetadataBytes is how much of a file system is set aside for metadata. What is in use of it counts, too.
func MetadataBytes(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read the room of %s: %w", path, err)
	}
	defer f.Close()
	args := spaceArgs{slots: maxSpaces}
	if err := ioctl(f.Fd(), iocSpaceInfo, unsafe.Pointer(&args)); err != nil {
		return 0, fmt.Errorf("read the room of %s: %w", path, err)
	}
	var n int64
	for _, s := range args.spaces[:min(args.total, maxSpaces)] {
		if s.flags&groupMetadata != 0 {
			n += int64(s.total)
		}
	}
	return n, nil
}

// Is tells whether a path is on a btrfs file system.
func Is(path string) (bool, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return false, fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	return s.Type == unix.BTRFS_SUPER_MAGIC, nil
}

// IsSubvolume tells whether a directory is a subvolume. fs.ErrNotExist is wrapped if it isn't there.
func IsSubvolume(path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	on, err := Is(path)
	return on && st.Ino == subvolumeInode && st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// Create makes an empty subvolume. fs.ErrExist is wrapped if the name is taken.
func Create(path string) error {
	args := volArgs{}
	err := inParent(path, args.name[:], func(dir uintptr) error {
		return ioctl(dir, iocSubvolCreate, unsafe.Pointer(&args))
	})
	if err != nil {
		return fmt.Errorf("create subvolume %s: %w", path, err)
	}
	return nil
}

// Snapshot makes a subvolume that is a copy of another. It writes out what the other's files have in the page cache.
func Snapshot(source, path string, readOnly bool) error {
	src, err := openDir(source)
	if err != nil {
		return fmt.Errorf("snapshot subvolume %s: %w", source, err)
	}
	defer src.Close()
	args := volArgsV2{fd: int64(src.Fd())}
	if readOnly {
		args.flags = subvolReadOnly
	}
	err = inParent(path, args.name[:], func(dir uintptr) error {
		return ioctl(dir, iocSnapCreateV2, unsafe.Pointer(&args))
	})
	if err != nil {
		return fmt.Errorf("snapshot subvolume %s as %s: %w", source, path, err)
	}
	return nil
}

// Delete deletes a subvolume, read-only or not, with all that's in it; the space comes back a little later. No such path is no error.
// ErrNotSubvolume is wrapped for anything else.
func Delete(path string) error {
	is, err := IsSubvolume(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !is {
		err = ErrNotSubvolume
	}
	if err != nil {
		return fmt.Errorf("delete subvolume %s: %w", path, err)
	}
	args := volArgs{}
	err = inParent(path, args.name[:], func(dir uintptr) error {
		return ioctl(dir, iocSnapDestroy, unsafe.Pointer(&args))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete subvolume %s: %w", path, err)
	}
	return nil
}

// ReadOnly tells whether a subvolume is read-only.
func ReadOnly(path string) (bool, error) {
	flags, err := getFlags(path)
	return flags&subvolReadOnly != 0, err
}

// SetReadOnly makes a subvolume read-only, or writable again.
func SetReadOnly(path string, to bool) error {
	flags, err := getFlags(path)
	if err != nil {
		return err
	}
	want := flags &^ subvolReadOnly
	if to {
		want |= subvolReadOnly
	}
	if want == flags {
		return nil
	}
	return withDir(path, func(dir uintptr) error { return ioctl(dir, iocSubvolSetFlags, unsafe.Pointer(&want)) })
}

// Sync makes everything on the file system of a path durable.
func Sync(path string) error {
	return withDir(path, func(dir uintptr) error { return ioctl(dir, iocSync, nil) })
}

func getFlags(path string) (flags uint64, err error) {
	err = withDir(path, func(dir uintptr) error { return ioctl(dir, iocSubvolGetFlags, unsafe.Pointer(&flags)) })
	return flags, err
}

// inParent calls f with the directory of a path, whose last part is put into name.
func inParent(path string, name []byte, f func(dir uintptr) error) error {
	base := filepath.Base(path)
	if len(base) > maxName {
		return fmt.Errorf("a name of %d bytes, the limit is %d", len(base), maxName)
	}
	copy(name, base)
	return withDir(filepath.Dir(path), f)
}

func withDir(path string, f func(dir uintptr) error) error {
	d, err := openDir(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := f(d.Fd()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

func ioctl(fd uintptr, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
