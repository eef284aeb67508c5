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
