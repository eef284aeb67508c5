package ring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// CopyTo copies what is kept at this moment into another directory, which Open can open then. On a file system that can, the copies share their blocks.
func (r *Ring) CopyTo(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.segments {
		if err := copyFile(s.path(r.dir), s.path(dir)); err != nil {
			return fmt.Errorf("copy a session's output: %w", err)
		}
	}
	return nil
}

// WriteOut has what is kept at this moment be on the disk. CopyTo does so with what isn't, where copies share their blocks, and takes as long.
func (r *Ring) WriteOut() error {
	r.mu.Lock()
	segments := slices.Clone(r.segments)
	r.mu.Unlock()
	for _, s := range segments {
		err := writeOut(s.path(r.dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was dropped meanwhile
			return fmt.Errorf("write out a session's output: %w", err)
		}
	}
	return nil
}

func writeOut(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fdatasync(int(f.Fd()))
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
	if err != nil { // another file system, or one without clones
		_, err = io.Copy(dst, src)
	}
	return errors.Join(err, dst.Close())
}
