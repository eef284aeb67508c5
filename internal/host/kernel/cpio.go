package kernel

import (
	"fmt"
	"io"
	"io/fs"
)

// archive writes a cpio archive in the "newc" format, which is what the kernel unpacks into its first root. Entries are root's and have
// no time, so that the same content gives the same bytes.
type archive struct {
	w       io.Writer
	entries int
	err     error // of the first write that failed; close returns it
}

// The type bits of a mode in the archive.
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeChar = 0o020000
)

const trailer = "TRAILER!!!"

func (a *archive) dir(name string, perm fs.FileMode) { a.entry(name, typeDir|uint32(perm), 0, 0, nil) }

func (a *archive) file(name string, perm fs.FileMode, b []byte) {
	a.entry(name, typeFile|uint32(perm), 0, 0, b)
}

func (a *archive) device(name string, perm fs.FileMode, major, minor uint32) {
	a.entry(name, typeChar|uint32(perm), major, minor, nil)
}

func (a *archive) close() error {
	a.entry(trailer, 0, 0, 0, nil)
	return a.err
}

func (a *archive) entry(name string, mode, major, minor uint32, b []byte) {
	a.entries++
	const header = 110
	fields := []any{
		a.entries, mode, 0, 0, 1, 0, len(b), // inode, mode, uid, gid, links, time, size
		0, 0, major, minor, len(name) + 1, 0, // device, device's number, name's size, check
	}
	a.printf("070701")
	for _, f := range fields {
		a.printf("%08X", f)
	}
	a.printf("%s\x00", name)
	a.pad(header + len(name) + 1)
	a.write(b)
	a.pad(len(b))
}

// pad fills up to the next multiple of four after n bytes.
func (a *archive) pad(n int) { a.write(make([]byte, -n&3)) }

func (a *archive) printf(format string, args ...any) { a.write(fmt.Appendf(nil, format, args...)) }

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}
