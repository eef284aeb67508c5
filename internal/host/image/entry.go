package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is one entry and the place where it goes.
type entry struct {
	layer  *layer
	dir    dir
	name   string
	depth  int // directories above it, as its name says
	header *tar.Header
	attr   attributes
}

// make makes what the entry describes.
func (e entry) make(ctx context.Context, body io.Reader) error {
	switch e.header.Typeflag {
	case tar.TypeDir:
		return e.makeDir()
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
		return e.makeFile(ctx, body)
	case tar.TypeSymlink:
		return e.makeSymlink()
	case tar.TypeLink:
		return e.makeLink()
	case tar.TypeChar:
		return e.makeNode(unix.S_IFCHR)
	case tar.TypeBlock:
		return e.makeNode(unix.S_IFBLK)
	case tar.TypeFifo:
		return e.makeNode(unix.S_IFIFO)
	}
	return fmt.Errorf("%w: entries of type %q are unknown", ErrMalformed, e.header.Typeflag)
}

func (e entry) makeDir() error {
	st, err := e.dir.stat(e.name)
	if err != nil && err != unix.ENOENT {
		return err
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := e.dir.remove(e.name); err != nil {
			return err
		}
		if err := unix.Mkdirat(e.dir.fd, e.name, implied); err != nil {
			return err
		}
	}
	d, err := openDir(e.dir.fd, e.name)
	if err != nil {
		return err
	}
	defer unix.Close(d.fd)
	e.layer.tree.times[d.ino] = e.attr.time
	return e.attr.set(d.fd)
}

func (e entry) makeFile(ctx context.Context, body io.Reader) error {
	t := e.layer.tree
	if left := t.limits.Bytes - t.used.bytes; e.header.Size > left {
		return fmt.Errorf("%w: %d bytes, of the tree's %d are %d left", ErrTooLarge, e.header.Size, t.limits.Bytes, left)
	}
	if err := e.dir.remove(e.name); err != nil {
		return err
	}
	fd, err := unix.Openat(e.dir.fd, e.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), e.name)
	defer f.Close()
	if err := e.copy(ctx, f, body); err != nil {
		return err
	}
	if err := e.attr.set(fd); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{e.attr.time, e.attr.time}, unix.AT_EMPTY_PATH)
}

func (e entry) makeSymlink() error {
	if err := checkTarget(e.header.Linkname, e.depth); err != nil {
		return err
	}
	if err := e.dir.remove(e.name); err != nil {
		return err
	}
	if err := unix.Symlinkat(e.header.Linkname, e.dir.fd, e.name); err != nil {
		return err
	}
	return e.attr.setNode(e.dir.fd, e.name, false)
}

// makeLink makes a hard link to what is in the tree already.
func (e entry) makeLink() error {
	parts, err := split(e.header.Linkname)
	if err != nil {
		return fmt.Errorf("a link to %q: %w", clip(e.header.Linkname), err)
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: a hard link to the root", ErrMalformed)
	}
	w, err := e.layer.enter(parts[:len(parts)-1], false)
	if err != nil {
		return fmt.Errorf("a link to %q: %w", clip(e.header.Linkname), err)
	}
	defer w.close()
	target := parts[len(parts)-1]
	to, err := w.top().stat(target)
	if err != nil || to.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w: a hard link to %q, which is no file", ErrMalformed, clip(e.header.Linkname))
	}
	if old, err := e.dir.stat(e.name); err == nil && old.Ino == to.Ino {
		return nil // it's the same file already, perhaps itself
	}
	if err := e.dir.remove(e.name); err != nil {
		return err
	}
	return unix.Linkat(w.top().fd, target, e.dir.fd, e.name, 0)
}

// The largest numbers of a device that the kernel takes.
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

func (e entry) makeNode(kind uint32) error {
	major, minor := e.header.Devmajor, e.header.Devminor
	if kind == unix.S_IFIFO {
		major, minor = 0, 0
	}
	if major < 0 || major > maxMajor || minor < 0 || minor > maxMinor {
		return fmt.Errorf("%w: device %d:%d", ErrMalformed, major, minor)
	}
	if err := e.dir.remove(e.name); err != nil {
		return err
	}
	if err := unix.Mknodat(e.dir.fd, e.name, kind|0o600, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
		return err
	}
	return e.attr.setNode(e.dir.fd, e.name, true)
}

func join(parts []string) string { return strings.Join(parts, "/") }
