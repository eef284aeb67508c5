package image

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// EnsureDir makes a directory of the tree, and those above it, unless it's there. Links on the path lead where they lead a process in the
// tree. A new directory belongs to root.
func (t *Tree) EnsureDir(path string, mode uint32) error {
	w, name, err := t.enterAbove(path)
	if err != nil || w == nil {
		return err
	}
	defer w.close()
	if _, err := w.top().stat(name); err == nil {
		_, err := w.step(name) // through a link, or refused if it's something else
		return refuse(path, err)
	}
	d, err := w.makeDir(name)
	if err != nil {
		return refuse(path, err)
	}
	defer unix.Close(d.fd)
	return unix.Fchmod(d.fd, mode)
}

// EnsureFile writes a file of the tree unless something has its name.
func (t *Tree) EnsureFile(path, content string, mode uint32) error {
	w, name, err := t.enterAbove(path)
	if err != nil || w == nil {
		return err
	}
	defer w.close()
	fd, err := unix.Openat(w.top().fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return refuse(path, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(content)
	return refuse(path, errors.Join(err, f.Close()))
}

// enterAbove enters the directory above a path and makes it if need be; no walk for the root itself.
func (t *Tree) enterAbove(path string) (*walk, string, error) {
	parts, err := split(path)
	if err != nil || len(parts) == 0 {
		return nil, "", refuse(path, err)
	}
	l := &layer{tree: t, root: t.rootDir()}
	w, err := l.enter(parts[:len(parts)-1], true)
	if err != nil {
		return nil, "", refuse(path, err)
	}
	return w, parts[len(parts)-1], nil
}

func refuse(path string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Entry: clip(path), Err: fmt.Errorf("make it: %w", err)}
}
