package files

import (
	"os"

	"golang.org/x/sys/unix"

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
	if err := checkMode(a.Mode); err != nil {
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
	if err := u.commit(a.Mode); err != nil {
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
