package seal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/sparse"
)

// ErrUnpromised is Memory's error when the node has no memory to promise for it.
var ErrUnpromised = errors.New("the node has promised its memory to others")

// Memory copies a snapshot's memory into a memfd that nobody can change any more, not even this process. All machines that are loaded
// from it map it privately and share its pages. A clone of the file per machine costs no less memory as soon as it's read, and twice the
// time: its pages come from the volume's image each time.
//
// A page that the memory doesn't have is made when the first machine touches it, for all of them, and counts as that machine's: see Lacks. So it may become as large as
// one of its machines, and is promised as much before anything is copied: by share, which reports false if that can't be. Who closes the file calls letGo.
func Memory(path string, share func(promise.Shared) (letGo func(), ok bool)) (f *os.File, letGo func(), err error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	dst := os.NewFile(uintptr(fd), "memfd:snapshot")
	if letGo, err = fill(dst, src, share); err != nil {
		dst.Close()
		return nil, nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	return dst, letGo, nil
}

// fill copies a memory into a memfd, for which there must be room, and seals it.
func fill(dst, src *os.File, share func(promise.Shared) (letGo func(), ok bool)) (letGo func(), err error) {
	info, err := src.Stat()
	if err != nil {
		return nil, err
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return nil, err
	}
	s, err := Identify(dst)
	if err != nil {
		return nil, err
	}
	letGo, ok := share(s)
	if !ok {
		return nil, ErrUnpromised
	}
	err = sparse.Copy(dst, src)
	if err == nil {
		_, err = unix.FcntlInt(dst.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		letGo()
		return nil, err
	}
	return letGo, nil
}

// Identify tells which memory of Memory a file is, and how large it may become.
func Identify(memory *os.File) (promise.Shared, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(memory.Fd()), &st); err != nil {
		return promise.Shared{}, fmt.Errorf("look at a snapshot's shared memory: %w", err)
	}
	return promise.Shared{Inode: st.Ino, Bytes: st.Size}, nil
}

// Lacks returns how many bytes a memory of Memory has no pages for, now. A machine that touches all of its memory may be charged for as much, beside its private copies:
// the kernel has no way to map a hole of such a file without making a page of it first.
func Lacks(memory *os.File) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(memory.Fd()), &st); err != nil {
		return 0, fmt.Errorf("look at a snapshot's shared memory: %w", err)
	}
	const statBlock = 512
	return max(st.Size-st.Blocks*statBlock, 0), nil
}
