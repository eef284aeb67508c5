package image

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tree is a directory that layers are applied to. One goroutine at a time uses it, and nobody else changes what's in it.
type Tree struct {
	root   *os.File
	limits Limits
	used   usage
	times  map[uint64]unix.Timespec // of directories, by inode: they are set when nothing is put into them any more
}

// OpenTree returns the tree of a directory.
func OpenTree(dir string, limits Limits) (*Tree, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	return &Tree{root: root, limits: limits, times: map[uint64]unix.Timespec{}}, nil
}

// Close lets go of the directory.
func (t *Tree) Close() error { return t.root.Close() }

// dir is a directory in the tree that is open.
type dir struct {
	fd  int
	ino uint64
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openDir opens a directory in another one, and follows no link.
func openDir(at int, name string) (dir, error) {
	fd, err := unix.Openat(at, name, dirFlags, 0)
	if err != nil {
		return dir{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return dir{}, err
	}
	return dir{fd: fd, ino: st.Ino}, nil
}

// names returns what's in a directory.
func (d dir) names() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", dirFlags, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	return f.Readdirnames(-1) // the tree's entries are bounded
}

// remove removes what has a name in a directory, with all that's in it. Nothing there is no error.
func (d dir) remove(name string) error {
	err := unix.Unlinkat(d.fd, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	sub, err := openDir(d.fd, name)
	if err != nil {
		return err
	}
	defer unix.Close(sub.fd)
	names, err := sub.names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := sub.remove(n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)
}

// stat looks at what has a name in a directory, without following it.
func (d dir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// inode returns a file's inode number.
func inode(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
