package files

import (
	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/failure"
)

// commit puts the file in its place. It's on the disk when commit returns.
func (u *upload) commit(asked *uint32) error {
	if err := u.f.Truncate(u.written); err != nil { // room that was reserved in vain
		return err
	}
	if err := u.attributes(asked); err != nil {
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
func (u *upload) attributes(asked *uint32) error {
	fd := int(u.f.Fd())
	if u.before == nil {
		return unix.Fchmod(fd, given(asked, fileMode))
	}
	keep := u.before.Mode & modeBits
	if u.c.user.UID != 0 {
		keep &^= unix.S_ISUID | unix.S_ISGID // they don't survive a write
	}
	mode := given(asked, keep)
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

// given is the mode that was asked for, or else another.
func given(asked *uint32, otherwise uint32) uint32 {
	if asked == nil {
		return otherwise
	}
	return *asked
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
