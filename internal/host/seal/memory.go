package seal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// Memory copies a snapshot's memory into a memfd that nobody can change any more, not even this process. All machines that are loaded
// from it map it privately and share its pages. A clone of the file per machine costs no less memory as soon as it's read, and twice the
// time: its pages come from the volume's image each time.
//
// A page that the memory doesn't have is made when the first machine touches it, for all of them, and counts as that machine's: see Lacks.
func Memory(path string) (*os.File, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	dst := os.NewFile(uintptr(fd), "memfd:snapshot")
	err = sparse.Copy(dst, src)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		dst.Close()
		return nil, fmt.Errorf("share a snapshot's memory: %w", err)
	}
	return dst, nil
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
