package archive

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/failure"
)

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, contents io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return refuse("entry %q: only a directory has this name", failure.Clip(h.Name))
		}
		return nil // it's the caller's
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return of(name, err)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.directory(name, h)
	case tar.TypeReg, '\x00':
		err = u.file(name, h, contents)
	case tar.TypeSymlink:
		err = u.symlink(name, h)
	case tar.TypeLink:
		err = u.link(name, h)
	default:
		err = refuse("entry %q: devices, pipes and kinds that few tars know can't be unpacked", failure.Clip(name))
	}
	return of(name, err)
}

// of says which entry an error is about, unless it says so itself.
func of(name string, err error) error {
	var path *fs.PathError
	if err == nil || errors.As(err, new(*space.Error)) || errors.As(err, &path) {
		return err
	}
	return &fs.PathError{Op: "unpack", Path: name, Err: err}
}

// parents makes the directories that an entry is in, as far as the archive hasn't.
func (u *unpacker) parents(dir string) error {
	if dir == "." || dir == u.parent {
		return nil
	}
	for at := 0; at < len(dir); {
		end := len(dir)
		if n := strings.IndexByte(dir[at:], '/'); n >= 0 {
			end = at + n
		}
		if err := u.parentOf(dir[:end]); err != nil {
			return err
		}
		at = end + 1
	}
	u.parent = dir
	return nil
}

// parentOf makes one directory that entries are in; what's there already may be a link to one.
func (u *unpacker) parentOf(dir string) error {
	err := u.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		info, serr := u.root.Stat(dir)
		if serr == nil && !info.IsDir() {
			serr = &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		}
		return serr
	}
	if err == nil && u.owner != nil {
		err = u.root.Lchown(dir, u.owner.UID, u.owner.GID)
	}
	return err
}

func (u *unpacker) directory(name string, h *tar.Header) error {
	info, err := u.root.Lstat(name)
	if err == nil && !info.IsDir() {
		if err := u.root.Remove(name); err != nil {
			return err
		}
	}
	old := err == nil && info.IsDir()
	if !old {
		if err := u.root.Mkdir(name, workMode); err != nil {
			return err
		}
	}
	if u.kept += len(name); u.kept > maxKept {
		return space.Errorf(space.CodeTooLarge, "an archive's directories have names of at most %d bytes in all", maxKept)
	}
	u.dirs = append(u.dirs, directory{name, uint32(h.Mode) & modeBits, h.ModTime, old})
	return nil
}

func (u *unpacker) file(name string, h *tar.Header, contents io.Reader) error {
	if err := u.clear(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, fileFlags, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := u.copy(f, name, contents); err != nil {
		return err
	}
	if err := u.give(f); err != nil {
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), uint32(h.Mode)&modeBits); err != nil {
		return err
	}
	return setTime(int(f.Fd()), "", h.ModTime, unix.AT_EMPTY_PATH)
}

// clear removes a file or link that is in the way. A directory that isn't empty stays, and what follows fails.
func (u *unpacker) clear(name string) error {
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copy writes a file's contents. No more is written than was sent: a hole costs a sender nothing.
func (u *unpacker) copy(f *os.File, name string, contents io.Reader) error {
	for {
		n, err := contents.Read(u.buf)
		if n > 0 {
			if u.result.Bytes += uint64(n); u.result.Bytes > MaxRatio*u.sent.n {
				return refuse("entry %q: files with holes can't be unpacked", failure.Clip(name))
			}
			if _, err := f.Write(u.buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
	}
}

func (u *unpacker) symlink(name string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.Contains(h.Linkname, "\x00") {
		return refuse("entry %q: a link points to 1 to %d bytes without a zero byte", failure.Clip(name), maxTarget)
	}
	if err := u.clear(name); err != nil {
		return err
	}
	if err := u.root.Symlink(h.Linkname, name); err != nil {
		return err
	}
	if u.owner != nil {
		if err := u.root.Lchown(name, u.owner.UID, u.owner.GID); err != nil {
			return err
		}
	}
	return u.linkTime(name, h.ModTime)
}

// linkTime sets a link's own time, which matters too little to fail for.
func (u *unpacker) linkTime(name string, t time.Time) error {
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return nil // it may not be read
	}
	defer dir.Close()
	setTime(int(dir.Fd()), path.Base(name), t, unix.AT_SYMLINK_NOFOLLOW)
	return nil
}

func (u *unpacker) link(name string, h *tar.Header) error {
	target, err := clean(h.Linkname)
	if err != nil {
		return err
	}
	info, err := u.root.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("entry %q: it's a hard link to %q, which is not in the directory", failure.Clip(name), failure.Clip(target))
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return refuse("entry %q: it's a hard link to a directory", failure.Clip(name))
	}
	if target == name {
		return nil
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}
