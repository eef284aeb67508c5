package archive

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/failure"
	"github.com/space-platform/space/internal/guest/temporary"
	"github.com/space-platform/space/internal/guest/tree"
)

// inode is what a file is, whatever its names.
type inode struct{ device, number uint64 }

// packer packs one tree.
type packer struct {
	tar    *tar.Writer
	device uint64           // of the directory: others are mounted in it
	first  map[inode]string // name of files that may have another; those beyond maxKept are packed once for each name
	kept   int              // bytes of these names
	copied []byte
}

// Pack writes what is in an open directory to w. A file that can't be read, or that becomes shorter meanwhile, is an error.
func Pack(ctx context.Context, dir *os.File, w io.Writer) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	p := &packer{tar: tar.NewWriter(w), device: uint64(st.Dev), first: map[inode]string{}, copied: make([]byte, 32<<10)}
	if err := tree.Walk(ctx, dir, tree.Visitor{Enter: p.enter}); err != nil {
		return err
	}
	return p.tar.Close()
}

// enter packs a node.
func (p *packer) enter(n *tree.Node) (descend bool, err error) {
	if _, ok := temporary.Parse(n.Name); ok {
		return false, nil
	}
	switch n.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h := header(n, tar.TypeDir)
		h.Name += "/"
		return uint64(n.Stat.Dev) == p.device, p.tar.WriteHeader(h)
	case unix.S_IFLNK:
		return false, p.link(n)
	case unix.S_IFREG:
		return false, p.file(n)
	}
	return false, nil
}

// header is a node's, in the format that knows long names and exact times.
func header(n *tree.Node, kind byte) *tar.Header {
	return &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: n.Path, Mode: int64(n.Stat.Mode & 0o7777), Uid: int(n.Stat.Uid), Gid: int(n.Stat.Gid),
		ModTime: time.Unix(n.Stat.Mtim.Unix()),
	}
}

func (p *packer) link(n *tree.Node) error {
	b := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(n.Dir, n.Name, b)
	if err == unix.ENOENT || err == unix.EINVAL { // it's gone, or another thing now
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "read", Path: n.Path, Err: err}
	}
	h := header(n, tar.TypeSymlink)
	h.Linkname = string(b[:size])
	return p.tar.WriteHeader(h)
}

// file packs a file's contents, or the name under which they were packed.
func (p *packer) file(n *tree.Node) error {
	fd, err := unix.Openat(n.Dir, n.Name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ELOOP || err == unix.ENXIO {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: n.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), n.Path)
	defer f.Close()
	if err := unix.Fstat(fd, &n.Stat); err != nil {
		return err
	}
	if n.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if packed, err := p.again(n); packed || err != nil {
		return err
	}
	h := header(n, tar.TypeReg)
	h.Size = n.Stat.Size
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.contents(n, f)
}

// again packs another name of a file that was packed already.
func (p *packer) again(n *tree.Node) (packed bool, err error) {
	if n.Stat.Nlink < 2 {
		return false, nil
	}
	id := inode{uint64(n.Stat.Dev), n.Stat.Ino}
	first, known := p.first[id]
	if !known {
		if p.kept += len(n.Path); p.kept <= maxKept {
			p.first[id] = n.Path
		}
		return false, nil
	}
	h := header(n, tar.TypeLink)
	h.Linkname = first
	return true, p.tar.WriteHeader(h)
}

func (p *packer) contents(n *tree.Node, f *os.File) error {
	// The writer's own way of reading from a file is hidden: it would seek, and take any hole for the end.
	copied, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, struct{ io.Reader }{io.LimitReader(f, n.Stat.Size)}, p.copied)
	if err != nil {
		return fmt.Errorf("pack %s: %w", failure.Clip(n.Path), err)
	}
	if copied < n.Stat.Size {
		return space.Errorf(space.CodeConflict, "pack %s: it became shorter while it was packed", failure.Clip(n.Path))
	}
	return nil
}
