package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
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

// Owner is whom what is unpacked belongs to. Giving files away takes root.
type Owner struct{ UID, GID int }

// unpacker unpacks one archive.
type unpacker struct {
	ctx     context.Context
	root    *os.Root
	owner   *Owner  // nil: the user who unpacks
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
// was unpacked before an error stays. All that the archive names belongs to the owner then, directories that were there too; nil leaves it to the user who
// unpacks. An error that the archive causes is an invalid_request or too_large that names the entry.
func Unpack(ctx context.Context, root *os.Root, r io.Reader, owner *Owner) (Result, error) {
	u := newUnpacker(ctx, root, r)
	u.owner = owner
	err := u.all()
	if err == nil {
		err = u.finish()
	}
	return u.result, failure.Of("unpack", root.Name(), err)
}

func newUnpacker(ctx context.Context, root *os.Root, r io.Reader) *unpacker {
	return &unpacker{ctx: ctx, root: root, sent: counter{Reader: r}, entries: MaxEntries, buf: make([]byte, copyBytes)}
}

func (u *unpacker) all() error {
	head := bufio.NewReaderSize(&u.sent, headBytes)
	if err := compressed(head); err != nil {
		return err
	}
	t := tar.NewReader(head)
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

// headBytes is how much of an archive is looked at before it's read, and read ahead.
const headBytes = 512

// compressions are how compressed files begin.
var compressions = map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ", "bzip2": "BZh"}

// compressed refuses what people send in a tar's place most often.
func compressed(r *bufio.Reader) error {
	for name, magic := range compressions {
		if b, _ := r.Peek(len(magic)); string(b) == magic { // an error shows when it's read
			return refuse("it's compressed with %s: send the tar itself", name)
		}
	}
	return nil
}

// unreadable is the reader's error: the stream's own, or that the bytes are no archive.
func unreadable(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) {
		return refuse("it is damaged or not a tar: %s", err)
	}
	return err
}

func refuse(format string, args ...any) error { return space.FieldErrorf("archive", format, args...) }

// finish gives the directories their modes and times, inner ones first. One that was replaced meanwhile isn't the archive's any more.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if err := u.finishDirectory(u.dirs[i]); err != nil {
			return of(u.dirs[i].name, err)
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
	if err := u.give(f); err != nil {
		return err
	}
	if err := setTime(int(f.Fd()), "", d.mtime, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	err = unix.Fchmod(int(f.Fd()), d.mode)
	if err == unix.EPERM && d.old {
		return nil
	}
	return err
}

// give gives a file or directory to the owner. It comes before the mode: giving a file away takes its setuid bit.
func (u *unpacker) give(f *os.File) error {
	if u.owner == nil {
		return nil
	}
	return f.Chown(u.owner.UID, u.owner.GID)
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
