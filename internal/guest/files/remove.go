package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
	"github.com/space-platform/space/internal/guest/tree"
)

// removeRounds is how often a directory is emptied that somebody fills at the same time.
const removeRounds = 8

func (c *call) remove(a *sandboxv1.Remove) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	if p == "/" {
		return space.FieldErrorf("path", "the root can't be removed")
	}
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return failure.Of("remove", p, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return failure.Of("remove", p, unix.Unlink(p))
	}
	err = unix.Rmdir(p)
	for round := 0; full(err) && a.GetRecursive() && round < removeRounds; round++ {
		if err = c.empty(p); err == nil || full(err) {
			err = unix.Rmdir(p)
		}
	}
	return failure.Of("remove", p, err)
}

// full reports whether a directory wasn't removed because something is in it.
func full(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

// empty removes what is in a directory.
func (c *call) empty(p string) error {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), p)
	defer dir.Close()
	return tree.Walk(c.ctx, dir, tree.Visitor{
		Enter: func(n *tree.Node) (bool, error) {
			if !n.IsDir() {
				return false, removeAt(n, 0)
			}
			err := removeAt(n, unix.AT_REMOVEDIR)
			return full(err), unless(full(err), err)
		},
		Leave: func(n *tree.Node) error { return removeAt(n, unix.AT_REMOVEDIR) },
	})
}

func removeAt(n *tree.Node, flags int) error {
	err := unix.Unlinkat(n.Dir, n.Name, flags)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	return &os.PathError{Op: "remove", Path: n.Path, Err: err}
}

// unless returns err unless it's expected.
func unless(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}
