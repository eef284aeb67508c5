package files

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
