// Package tree walks a directory's contents. Every step is made from an open directory and follows no link, so that whoever changes the tree
// meanwhile can't lead the walk out of it.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// MaxDepth is how many levels of directories are walked. Each has an open descriptor.
const MaxDepth = 1024

// batch is how many names of a directory are read at once.
const batch = 256

// Node is one thing in the tree.
type Node struct {
	Dir  int    // open descriptor of the directory that it's in
	Name string // in that directory
	Path string // below the top, without a slash in front
	Stat unix.Stat_t
}

// IsDir reports whether it's a directory.
func (n *Node) IsDir() bool { return n.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// Visitor is told of each node.
type Visitor struct {
	// Enter comes first; it says whether a directory is walked.
	Enter func(*Node) (descend bool, err error)
	// Leave comes after a directory's contents; nil: nothing to do.
	Leave func(*Node) error
	// Closed is asked about a directory that can't be opened; nil: that ends the walk.
	Closed func(*Node, error) error
}

// Walk walks what is in an open directory, until ctx ends or the visitor returns an error. What disappears meanwhile is left out. The order is the file system's.
func Walk(ctx context.Context, top *os.File, v Visitor) error {
	return walker{ctx, v}.walk(top, "", 1)
}

type walker struct {
	ctx context.Context
	Visitor
}

// walk walks one directory and the directories in it.
func (w walker) walk(dir *os.File, path string, depth int) error {
	if depth > MaxDepth {
		return space.Errorf(space.CodeTooLarge, "the tree has more than %d levels of directories", MaxDepth)
	}
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := w.visit(dir, path, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) { // the second: the directory was removed
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the directory: %w", err)
		}
	}
}

func (w walker) visit(dir *os.File, path, name string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	n := &Node{Dir: int(dir.Fd()), Name: name, Path: name}
	if path != "" {
		n.Path = path + "/" + name
	}
	if err := unix.Fstatat(n.Dir, name, &n.Stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if err == unix.ENOENT {
			return nil
		}
		return &os.PathError{Op: "stat", Path: n.Path, Err: err}
	}
	descend, err := w.Enter(n)
	if err != nil || !descend || !n.IsDir() {
		return err
	}
	return w.descend(n, depth)
}

func (w walker) descend(n *Node, depth int) error {
	sub, err := Open(n.Dir, n.Name)
	switch {
	case err == unix.ENOENT, err == unix.ENOTDIR, err == unix.ELOOP: // it's another thing now
		return nil
	case err != nil && w.Closed != nil:
		return w.Closed(n, err)
	case err != nil:
		return &os.PathError{Op: "open", Path: n.Path, Err: err}
	}
	err = w.walk(sub, n.Path, depth+1)
	sub.Close()
	if err != nil || w.Leave == nil {
		return err
	}
	return w.Leave(n)
}

// Open opens a directory in an open directory. Errors are the system's.
func Open(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
