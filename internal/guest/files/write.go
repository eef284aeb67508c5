package files

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
	"github.com/space-platform/space/internal/guest/temporary"
)

// upload is a file that is on its way. It arrives under another name in the same directory and takes its own when it's whole and on the disk.
type upload struct {
	c       *call
	path    string // as the caller sees it
	dir     *os.File
	made    []string // directories that weren't there
	base    string
	temp    string // its name until then
	f       *os.File
	before  *unix.Stat_t // of the file that it replaces; nil: none
	written int64
}

func (c *call) write(a *sandboxv1.Write) (err error) {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	if err := checkMode(a.GetMode()); err != nil {
		return err
	}
	u := &upload{c: c, path: p}
	defer u.close(&err)
	if err := u.begin(); err != nil {
		return failure.Of("write", p, err)
	}
	if err := u.reserve(a.GetSizeHint()); err != nil {
		return failure.Of("make room for", p, err)
	}
	if err := u.receive(); err != nil {
		return err
	}
	if err := u.commit(a.GetMode()); err != nil {
		return failure.Of("write", p, err)
	}
	e, err := c.entryAt(int(u.dir.Fd()), u.base, p)
	if err != nil {
		return err
	}
	e.Created = u.before == nil
	return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: e}})
}

// begin finds the place and makes the temporary file.
func (u *upload) begin() error {
	if err := u.place(); err != nil {
		return err
	}
	if err := u.look(); err != nil {
		return err
	}
	temp := temporary.Name(u.before != nil)
	fd, err := unix.Openat(int(u.dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	u.temp, u.f = temp, os.NewFile(uintptr(fd), temp)
	return nil
}

// maxLinks is how many links lead to a file at most, as in the kernel.
const maxLinks = 40

// place opens the directory that the file is or will be in, which it makes if need be. A link stays what it is: what it points to is written.
func (u *upload) place() error {
	p := u.path
	for range maxLinks {
		dir, base := path.Split(p)
		if base == "" || base == "." || base == ".." {
			return unix.EISDIR
		}
		made, err := makeAll(dir)
		u.made = append(u.made, made...)
		if err == unix.EEXIST {
			return unix.ENOTDIR
		}
		if err != nil {
			return err
		}
		target, err := os.Readlink(p)
		if err != nil { // no link, or nothing at all
			return u.enter(dir, base)
		}
		if !path.IsAbs(target) {
			if dir, err = filepath.EvalSymlinks(dir); err != nil {
				return err
			}
			target = dir + "/" + target
		}
		p = target
	}
	return unix.ELOOP
}

func (u *upload) enter(dir, base string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	u.dir, u.base = os.NewFile(uintptr(fd), dir), base
	return nil
}

// look finds out what would be replaced, and whether the user may write to it: to put another file in its place takes only a directory's rights.
func (u *upload) look() error {
	st := new(unix.Stat_t)
	err := unix.Fstatat(int(u.dir.Fd()), u.base, st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if err := regular(st); err != nil {
		return err
	}
	fd, err := unix.Openat(int(u.dir.Fd()), u.base, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ETXTBSY && (u.c.user.UID == 0 || st.Uid == u.c.user.UID) { // the program that runs from it isn't touched
		u.before = st
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	u.before = new(unix.Stat_t)
	return errors.Join(unix.Fstat(fd, u.before), regular(u.before))
}

// reserve takes the room that will be needed, so that a disk that is too full is noticed before the bytes come. File systems that can't do that
// notice it later.
func (u *upload) reserve(hint uint64) error {
	if hint == 0 {
		return nil
	}
	err := unix.Fallocate(int(u.f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(min(hint, maxFile)))
	return unless(err != unix.ENOSPC && err != unix.EDQUOT && err != unix.EFBIG, err)
}

func (u *upload) receive() error {
	for {
		data, end, err := u.c.conversation.Receive(u.c.ctx)
		if err != nil {
			return err
		}
		if _, err := u.f.Write(data); err != nil {
			return failure.Of("write", u.path, err)
		}
		u.written += int64(len(data))
		if end {
			return nil
		}
	}
}

// commit puts the file in its place. It's on the disk when commit returns.
func (u *upload) commit(mode uint32) error {
	if err := u.f.Truncate(u.written); err != nil { // room that was reserved in vain
		return err
	}
	if err := u.attributes(mode); err != nil {
		return err
	}
	if err := u.f.Sync(); err != nil {
		return err
	}
	dir := int(u.dir.Fd())
	if err := unix.Renameat(dir, u.temp, dir, u.base); err != nil {
		return err
	}
	fresh := len(u.made) > 0
	u.temp, u.made = "", nil
	return u.syncNames(fresh)
}

// attributes gives the file the mode that was asked for, else that of the file it replaces, whose owner it has in any case.
func (u *upload) attributes(mode uint32) error {
	fd := int(u.f.Fd())
	if u.before == nil {
		if mode == 0 {
			mode = fileMode
		}
		return unix.Fchmod(fd, mode)
	}
	keep := u.before.Mode & modeBits
	if u.c.user.UID != 0 {
		keep &^= unix.S_ISUID | unix.S_ISGID // they don't survive a write
	}
	if mode == 0 {
		mode = keep
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid == u.before.Uid && st.Gid == u.before.Gid {
		return unix.Fchmod(fd, mode)
	}
	own := u.c.user.UID == 0 || u.before.Uid == u.c.user.UID
	if !own && mode != keep {
		return space.Errorf(space.CodeForbidden, "write %s: only its owner may change its mode", failure.Clip(u.path))
	}
	if err := asAgent(func() error { return unix.Fchown(fd, int(u.before.Uid), int(u.before.Gid)) }); err != nil {
		return err
	}
	if own {
		return unix.Fchmod(fd, mode)
	}
	return asAgent(func() error { return unix.Fchmod(fd, mode) })
}

// asAgent does something with the agent's rights instead of the user's. A user who may write to another's file leaves it that other's; a user can't give
// files away.
func asAgent(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return <-done
}

// syncNames writes to the disk that the file has its name. Directories above it may be fresh too.
func (u *upload) syncNames(fresh bool) error {
	if !fresh {
		fd, err := unix.Openat(int(u.dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			defer unix.Close(fd)
			return unix.Fsync(fd)
		}
	}
	return unix.Syncfs(int(u.f.Fd())) // the directory can't be opened, or it's new
}

// close leaves nothing behind of an upload that failed.
func (u *upload) close(err *error) {
	if u.f != nil {
		u.f.Close()
	}
	if u.temp != "" {
		unix.Unlinkat(int(u.dir.Fd()), u.temp, 0)
	}
	if u.dir != nil {
		u.dir.Close()
	}
	for i := len(u.made) - 1; *err != nil && i >= 0; i-- {
		unix.Rmdir(u.made[i])
	}
}
