package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attributes are what an entry has beside its name and content.
type attributes struct {
	uid, gid int
	mode     uint32 // permission bits with setuid, setgid and sticky
	time     unix.Timespec
	xattrs   map[string]string
}

// xattrRecord begins the name of a PAX record that holds an extended attribute.
const xattrRecord = "SCHILY.xattr."

// latest is the last second that the disk's file system can store.
const latest = 1<<33 - 1

// attributesOf reads an entry's attributes.
func attributesOf(h *tar.Header) (attributes, error) {
	if h.Uid < 0 || h.Uid >= math.MaxUint32 || h.Gid < 0 || h.Gid >= math.MaxUint32 {
		return attributes{}, fmt.Errorf("%w: owner %d:%d", ErrMalformed, h.Uid, h.Gid)
	}
	a := attributes{uid: h.Uid, gid: h.Gid, mode: uint32(h.Mode) & 0o7777, time: timespec(h.ModTime)}
	var err error
	a.xattrs, err = xattrsOf(h.PAXRecords)
	return a, err
}

func timespec(t time.Time) unix.Timespec {
	if t.Unix() < 0 || t.Unix() > latest {
		return unix.Timespec{}
	}
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

func xattrsOf(records map[string]string) (map[string]string, error) {
	var out map[string]string
	size := 0
	for record, value := range records {
		name, ok := strings.CutPrefix(record, xattrRecord)
		if !ok || !kept(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
		size += len(name) + len(value)
	}
	switch {
	case len(out) > maxXattrs:
		return nil, tooMany("extended attributes", int64(len(out)), maxXattrs)
	case size > maxXattrBytes:
		return nil, tooMany("bytes of extended attributes", int64(size), maxXattrBytes)
	}
	return out, nil
}

// kept tells whether an extended attribute means the same in a guest.
func kept(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.") && len(name) > len("user.")
}

// set sets all but the time on an open file or directory. The owner comes first: its change takes setuid and capabilities away.
func (a attributes) set(fd int) error {
	if err := unix.Fchown(fd, a.uid, a.gid); err != nil {
		return fmt.Errorf("set the owner: %w", err)
	}
	if err := unix.Fchmod(fd, a.mode); err != nil {
		return fmt.Errorf("set the mode: %w", err)
	}
	for name, value := range a.xattrs {
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			return xattrError(name, err)
		}
	}
	return nil
}

// setNode sets everything on what can't be opened, which was just made. chmod is false for symbolic links, which have no mode.
func (a attributes) setNode(dir int, name string, chmod bool) error {
	if err := unix.Fchownat(dir, name, a.uid, a.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set the owner: %w", err)
	}
	if chmod {
		if err := unix.Fchmodat(dir, name, a.mode, 0); err != nil {
			return fmt.Errorf("set the mode: %w", err)
		}
	}
	for x, value := range a.xattrs {
		err := unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir, name), x, []byte(value), 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
			continue // links and devices take few of them
		}
		if err != nil {
			return xattrError(x, err)
		}
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{a.time, a.time}, unix.AT_SYMLINK_NOFOLLOW)
}

func xattrError(name string, err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) {
		return fmt.Errorf("%w: extended attribute %q", ErrMalformed, clip(name))
	}
	return fmt.Errorf("set the extended attribute %q: %w", clip(name), err)
}
