package files

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
)

// modeBits are those of a mode that can be changed.
const modeBits = 0o7777

// typeOf is the API's word for what a mode says.
func typeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// entry describes what a path names.
func (c *call) entry(path string, st *unix.Stat_t, target string) *sandboxv1.Entry {
	if c.names == nil {
		names := c.accounts.Names()
		c.names = &names
	}
	return &sandboxv1.Entry{
		Path: valid(path), Type: typeOf(st.Mode), Size: uint64(st.Size), Mode: st.Mode & modeBits, Uid: st.Uid, Gid: st.Gid,
		Owner: valid(c.names.Users[st.Uid]), Group: valid(c.names.Groups[st.Gid]),
		Modified: timestamppb.New(time.Unix(st.Mtim.Unix())), Target: valid(target),
	}
}

// valid makes a guest's bytes a string that can be sent.
func valid(s string) string { return strings.ToValidUTF8(s, "�") }

// entryAt describes the name in an open directory, the link itself if it's one.
func (c *call) entryAt(dir int, name, path string) (*sandboxv1.Entry, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, failure.Of("look at", path, err)
	}
	return c.entry(path, &st, targetAt(dir, name, &st)), nil
}

// targetAt is where a link points to; "" for anything else.
func targetAt(dir int, name string, st *unix.Stat_t) string {
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return ""
	}
	b := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return "" // it was replaced
	}
	return string(b[:n])
}

// sendEntry answers with what is at a path.
func (c *call) sendEntry(path string) error {
	e, err := c.entryAt(unix.AT_FDCWD, path, path)
	if err != nil {
		return err
	}
	return c.send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Entry{Entry: e}})
}
