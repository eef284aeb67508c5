package archive

import (
	"archive/tar"
	"context"
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

// Limits of an archive.
const (
	MaxEntries = 1_000_000
	MaxRatio   = 1        // bytes unpacked for each byte sent: only an archive with holes has more
	maxPath    = 4095     // bytes of a name
	maxName    = 255      // bytes of each part of it
	maxTarget  = 4095     // bytes of what a link points to
	modeBits   = 0o7777   // of a mode
	workMode   = 0o700    // of a directory while it's filled
	maxKept    = 16 << 20 // bytes of names that are kept until the end: of directories, or of files that may have another name
	copyBytes  = 32 << 10 // at once
	fileFlags  = os.O_WRONLY | os.O_CREATE | os.O_EXCL
)

// Result is what was unpacked.
type Result struct{ Entries, Bytes uint64 }

// directory is one that gets its mode and time when all is in it.
type directory struct {
	name  string
	mode  uint32
	mtime time.Time
	old   bool // it was there before, and may be another's
}

// unpacker unpacks one archive.
type unpacker struct {
	ctx     context.Context
	root    *os.Root
	sent    counter // the archive
	result  Result
	entries uint64 // how many there may be
	dirs    []directory
	kept    int    // bytes of the names in dirs
	parent  string // the last directory that was made for an entry
	buf     []byte
}

// counter counts what is read.
type counter struct {
	io.Reader
	n uint64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += uint64(n)
	return n, err
}

// Unpack unpacks a tar into a directory, over what is there: a file or link is replaced, a directory stays, with the mode and time of the archive's. What
// was unpacked before an error stays. An error that the archive causes is an invalid_request or too_large that names the entry.
func Unpack(ctx context.Context, root *os.Root, r io.Reader) (Result, error) {
	u := newUnpacker(ctx, root, r)
	err := u.all()
	if err == nil {
		err = u.finish()
	}
	return u.result, err
}

func newUnpacker(ctx context.Context, root *os.Root, r io.Reader) *unpacker {
	return &unpacker{ctx: ctx, root: root, sent: counter{Reader: r}, entries: MaxEntries, buf: make([]byte, copyBytes)}
}

func (u *unpacker) all() error {
	t := tar.NewReader(&u.sent)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if u.result.Entries++; u.result.Entries > u.entries {
			return space.Errorf(space.CodeTooLarge, "an archive has at most %d entries", u.entries)
		}
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
}

// unreadable is the reader's error: the stream's own, or that the bytes are no archive.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) {
		return refuse("it is damaged or not a tar: %s", err)
	}
	return err
}

func refuse(format string, args ...any) error { return space.FieldErrorf("archive", format, args...) }

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
		return failure.Of("unpack", name, err)
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
	return failure.Of("unpack", name, err)
}

// clean checks a name and makes it simple.
func clean(name string) (string, error) {
	shown := failure.Clip(name)
	switch {
	case name == "":
		return "", refuse("an entry has no name")
	case strings.Contains(name, "\x00"):
		return "", refuse("entry %q: a name has no zero byte", shown)
	case path.IsAbs(name):
		return "", refuse("entry %q: a name must be relative", shown)
	case len(name) > maxPath:
		return "", refuse("entry %q: a name has at most %d bytes", shown, maxPath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refuse("entry %q: a name must not have a .. part", shown)
		}
		if len(part) > maxName {
			return "", refuse("entry %q: each part of a name has at most %d bytes", shown, maxName)
		}
	}
	return path.Clean(name), nil
}

// parents makes the directories that an entry is in, as far as the archive hasn't.
func (u *unpacker) parents(dir string) error {
	if dir == "." || dir == u.parent {
		return nil
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	u.parent = dir
	return nil
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

// finish gives the directories their modes and times, inner ones first. One that was replaced meanwhile isn't the archive's any more.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if err := u.finishDirectory(u.dirs[i]); err != nil {
			return failure.Of("unpack", u.dirs[i].name, err)
		}
	}
	return nil
}

func (u *unpacker) finishDirectory(d directory) error {
	f, err := u.root.OpenFile(d.name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setTime(int(f.Fd()), "", d.mtime, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	err = unix.Fchmod(int(f.Fd()), d.mode)
	if err == unix.EPERM && d.old {
		return nil
	}
	return err
}

// setTime sets when something was modified, and read.
func setTime(dir int, name string, t time.Time, flags int) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return nil // a time that no clock has
	}
	err = unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, flags)
	if err == unix.EPERM || err == unix.EINVAL {
		return nil // another's directory that was there before
	}
	return err
}
