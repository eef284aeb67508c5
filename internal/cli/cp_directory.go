package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// uploadDirectory sends a directory as an archive, as it is written.
func (c copier) uploadDirectory(ctx context.Context, src, dst string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(src, w)
		w.CloseWithError(err)
		packed <- err
	}()
	err := c.plane.WriteArchive(ctx, dst, c.progress.count(r, 0), c.options...)
	r.CloseWithError(io.ErrClosedPipe)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	return err
}

// pack writes a directory's files, directories and links as a tar archive.
func pack(dir string, to io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w, all := tar.NewWriter(to), root.FS()
	err = fs.WalkDir(all, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return packEntry(w, all, name, d)
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return w.Close()
}

func packEntry(w *tar.Writer, all fs.FS, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	var target string
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if target, err = fs.ReadLink(all, name); err != nil {
			return err
		}
	default:
		return nil // devices, sockets and pipes are nothing to copy
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	if h.Name = name; info.IsDir() {
		h.Name += "/"
	}
	if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := all.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = io.CopyN(w, f, h.Size); errors.Is(err, io.EOF) { // one that has grown is sent as long as it was
		return fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}

func (c copier) downloadDirectory(ctx context.Context, src, dst string) error {
	r, err := c.plane.ReadArchive(ctx, src, c.options...)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpack(tar.NewReader(c.progress.count(r, 0)), root); err != nil {
		return fmt.Errorf("unpack %s: %w", src, err)
	}
	return nil
}

// unpack writes an archive beneath a root, which nothing in it can leave: a sandbox isn't trusted. Owners, devices and special bits stay there.
func unpack(r *tar.Reader, root *os.Root) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(r, h, root); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

func unpackEntry(r io.Reader, h *tar.Header, root *os.Root) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	if sparse(h) {
		return errors.New("the sandbox sends a sparse file, which may be any size: read it by itself")
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink, tar.TypeLink, tar.TypeReg:
	default:
		return nil // devices, sockets and pipes are nothing to copy
	}
	if err := makeRoom(root, name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(h.Linkname), name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// sparse reports whether a file's holes are left out of an archive: a few bytes would fill a disk.
func sparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// makeRoom removes what has the name of something that comes, so that an earlier copy's links and read-only files are no hindrance and nothing
// is written through them. A directory stays, and is an error.
func makeRoom(root *os.Root, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: name, Err: syscall.EISDIR}
	}
	return root.Remove(name)
}
