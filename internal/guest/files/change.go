package files

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
	"github.com/space-platform/space/internal/guest/tree"
)

// change is what is to be changed; -1 leaves it.
type change struct {
	mode     int
	uid, gid int
	root     bool // it's root who changes
}

func (c *call) change(a *sandboxv1.Change) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	ch, err := c.parseChange(a)
	if err != nil {
		return err
	}
	isDir, err := ch.apply(unix.AT_FDCWD, p, 0) // through links, as chmod does
	if err != nil {
		return failure.Of("change", p, err)
	}
	if a.GetRecursive() && isDir {
		if err := c.changeTree(ch, p); err != nil {
			return failure.Of("change what is in", p, err)
		}
	}
	return c.sendEntry(p)
}

func (c *call) parseChange(a *sandboxv1.Change) (change, error) {
	ch := change{mode: -1, uid: -1, gid: -1, root: c.user.UID == 0}
	if a.Mode != nil {
		if err := checkMode(a.Mode); err != nil {
			return ch, err
		}
		ch.mode = int(a.GetMode())
	}
	if a.GetOwner() != "" {
		id, err := c.accounts.UserID(a.GetOwner())
		if err != nil {
			return ch, space.FieldErrorf("owner", "%s", err)
		}
		ch.uid = int(id)
	}
	if a.GetGroup() != "" {
		id, err := c.accounts.GroupID(a.GetGroup())
		if err != nil {
			return ch, space.FieldErrorf("group", "%s", err)
		}
		ch.gid = int(id)
	}
	if ch.mode < 0 && ch.uid < 0 && ch.gid < 0 {
		return ch, space.FieldErrorf("mode", "a mode, an owner or a group is needed")
	}
	return ch, nil
}

// changeTree changes what is in a directory. Links in it are changed themselves; they have no mode.
func (c *call) changeTree(ch change, p string) error {
	dir, err := openDirectory(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	return tree.Walk(c.ctx, dir, tree.Visitor{Enter: func(n *tree.Node) (bool, error) {
		_, err := ch.apply(n.Dir, n.Name, unix.O_NOFOLLOW)
		if err != nil && err != unix.ENOENT {
			return false, &os.PathError{Op: "change", Path: n.Path, Err: err}
		}
		return true, nil
	}})
}

// apply changes what a name in an open directory stands for. It holds on to that, so that the name may become another thing meanwhile. The owner
// comes first: giving a file away takes its setuid bit.
func (ch change) apply(dir int, name string, flags int) (isDir bool, err error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if ch.uid >= 0 || ch.gid >= 0 {
		if err := unix.Fchownat(fd, "", ch.uid, ch.gid, unix.AT_EMPTY_PATH); err != nil {
			return false, err
		}
	}
	kind := st.Mode & unix.S_IFMT
	if ch.mode >= 0 && kind != unix.S_IFLNK {
		err = ch.setMode(fd, dir, name)
	}
	return kind == unix.S_IFDIR, err
}

// setMode sets the mode of what fd stands for. Kernels before 6.6 can't do that.
func (ch change) setMode(fd, dir int, name string) error {
	empty := [1]byte{}
	_, _, errno := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(ch.mode), unix.AT_EMPTY_PATH, 0, 0)
	if errno == unix.ENOSYS {
		return ch.setModeByPath(fd, dir, name)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// setModeByPath does it through a path: root through that of the descriptor, others through the name. If that is another thing now, a user loses
// nothing by it, since the kernel allows no more than what is the user's; root would.
func (ch change) setModeByPath(fd, dir int, name string) error {
	if ch.root {
		return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), uint32(ch.mode))
	}
	return unix.Fchmodat(dir, name, uint32(ch.mode), 0)
}
