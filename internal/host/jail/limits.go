package jail

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
	"github.com/space-platform/space/internal/host/vmm"
)

const (
	// maxFiles is how many descriptors a program may have.
	maxFiles = 1024
	// fileBytes is how far a program may write into any file that doesn't say how far: its log, and device states.
	fileBytes = 256 << 20
	// oomScore makes a machine go before the daemons when the host runs out of memory.
	oomScore = 500
)

// limits are what the process itself may use; what its group may use is the cgroup's business. They come into force right after the exec,
// before a VMM has opened its files: the kernel has no way to give them to a child alone.
type limits struct {
	fileBytes uint64
}

// limitsFor allows files to be written as far as the largest writable one reaches, so that a disk can't grow.
func limitsFor(c vmm.Command) limits {
	l := limits{fileBytes: uint64(cmp.Or(c.FileBytes, fileBytes))}
	for _, src := range c.Bind {
		if !src.Writable {
			continue
		}
		if info, err := os.Lstat(src.Path); err == nil && info.Mode().IsRegular() {
			l.fileBytes = max(l.fileBytes, uint64(info.Size()))
		}
	}
	return l
}

// apply limits a process that has the uid.
func (l limits) apply(pid, uid int) error {
	err := l.prlimit(pid)
	if errors.Is(err, unix.EPERM) {
		// Without CAP_SYS_RESOURCE, as in some containers, a process may still be limited by its own uid.
		err = thread.Run(func() error {
			if err := becomeUID(uid); err != nil {
				return err
			}
			return l.prlimit(pid)
		})
	}
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d", oomScore), 0); err != nil {
		return fmt.Errorf("set its place in the order of the out-of-memory killer: %w", err)
	}
	return nil
}

func (l limits) prlimit(pid int) error {
	for _, r := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, maxFiles},
		{unix.RLIMIT_FSIZE, l.fileBytes},
	} {
		if err := unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: r.value, Max: r.value}, nil); err != nil {
			return fmt.Errorf("limit resource %d: %w", r.resource, err)
		}
	}
	return nil
}

// becomeUID changes the calling thread alone, which must end afterwards; the functions of package syscall change all threads.
func becomeUID(uid int) error {
	id := uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return fmt.Errorf("become gid %d: %w", uid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return fmt.Errorf("become uid %d: %w", uid, errno)
	}
	return nil
}
