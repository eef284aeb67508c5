package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/sparse"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// memoryFile is the file behind a machine's memory. The inode finds its mapping even when the file was renamed or removed since.
type memoryFile struct {
	Path  string `json:"path"`         // meaningless for a memfd in another life of the daemon
	FD    int    `json:"fd,omitempty"` // QEMU's own descriptor of a memfd; 0: it's a file
	Inode uint64 `json:"inode"`
	Bytes int64  `json:"bytes"`
}

// newMemory makes memory that is in no file system. A file on the volume would be written out again and again while the guest runs, and a
// volume that runs full would kill it. It isn't anonymous memory, since then it couldn't be told from QEMU's own when it's saved.
func newMemory(bytes int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make its memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd:guest")
	if err := f.Truncate(bytes); err != nil {
		f.Close()
		return nil, fmt.Errorf("make its memory of %d bytes: %w", bytes, err)
	}
	return f, nil
}

// inspect looks at a memory file. One of another size than the machine's memory would be stretched by QEMU, or cut.
func inspect(path string, bytes int64) (memoryFile, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return memoryFile{}, fmt.Errorf("look at memory file %s: %w", path, err)
	}
	if page := int64(os.Getpagesize()); bytes <= 0 || bytes%page != 0 {
		return memoryFile{}, fmt.Errorf("memory of %d bytes: want a multiple of %d", bytes, page)
	}
	if st.Size != bytes {
		return memoryFile{}, fmt.Errorf("memory file %s has %d bytes, the machine %d", path, st.Size, bytes)
	}
	return memoryFile{Path: path, Inode: st.Ino, Bytes: bytes}, nil
}

// open opens the memory of a booted machine with the given pid.
func (m memoryFile) open(pid int) (*os.File, error) {
	if m.FD != 0 {
		return os.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, m.FD))
	}
	return os.Open(m.Path)
}

// copyWhole copies a booted machine's memory, whose pages it shares with the original where the file system can. Holes stay holes.
func copyWhole(ctx context.Context, src, to *os.File, bytes int64) error {
	if err := to.Truncate(bytes); err != nil {
		return err
	}
	if unix.IoctlFileClone(int(to.Fd()), int(src.Fd())) == nil {
		return nil
	}
	return copyData(ctx, src, to, bytes)
}

// copySparingly copies a booted machine's memory at once, and has what differs of it written to a file when the machine has gone on.
func copySparingly(ctx context.Context, src, to *os.File, bytes int64) (vmm.Finish, error) {
	taken, err := pages.Spill(to)
	if err != nil {
		return nil, err
	}
	if err := copyWhole(ctx, src, taken, bytes); err != nil {
		return nil, errors.Join(err, taken.Close())
	}
	return func(ctx context.Context) (seal.Content, error) {
		return seal.Content{}, errors.Join(copyData(ctx, taken, pages.Sparing{File: to}, bytes), taken.Close())
	}, nil
}

// copyData copies what isn't a hole.
func copyData(ctx context.Context, src *os.File, to io.WriterAt, bytes int64) error {
	return sparse.Data(src, bytes, func(start, end int64) error { return copyPart(ctx, src, to, start, end) })
}

// partBytes is how much is copied at once.
const partBytes = 1 << 20

// copyPart copies what lies between two offsets, and looks after each chunk whether ctx has ended.
func copyPart(ctx context.Context, src *os.File, to io.WriterAt, start, end int64) error {
	for ; start < end; start += partBytes {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(partBytes, end-start)
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(src, start, n)); err != nil {
			return err
		}
	}
	return nil
}
