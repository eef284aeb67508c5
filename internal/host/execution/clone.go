package execution

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// clone makes the machine's own disk, and where it's loaded its own copy of the memory: the machine has it mapped, or, where the driver shares the
// snapshot's, what it's saved over is made of it when the snapshot may be gone.
func (e *execution) clone(o origin, uid int) error {
	if err := e.cfg.Clone(o.disk, e.file(diskName), uid); err != nil {
		return err
	}
	if err := e.grow(o.size.DiskBytes); err != nil {
		return err
	}
	if o.snapshot == nil {
		return nil
	}
	if !e.ownMemory(o) {
		uid = 0
	}
	return e.cfg.Clone(o.snapshot.Memory, e.file(memoryName), uid)
}

// ownMemory tells whether the machine maps its own copy of a snapshot's memory.
func (e *execution) ownMemory(o origin) bool {
	return o.snapshot != nil && o.snapshot.Sealed == nil && !e.cfg.Driver.Capabilities().SharedMemory
}

// readAheadBytes is how much of a memory is read before the guest asks for it. What a guest touches first is a few dozen megabytes.
const readAheadBytes = 128 << 20

// readAhead has the kernel read the machine's copy of a memory from the disk while the VMM starts: blocks are shared with what it was copied from, pages in
// memory aren't, and the guest would wait for each of them.
func (e *execution) readAhead() error {
	f, err := os.Open(e.file(memoryName))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	left := int64(readAheadBytes)
	return sparse.Data(f, info.Size(), func(start, end int64) error {
		n := min(end-start, left)
		if left -= n; n == 0 {
			return nil
		}
		return unix.Fadvise(int(f.Fd()), start, n, unix.FADV_WILLNEED)
	})
}

// copySessions gives the machine records of its own of the sessions that run in a snapshot, so that somebody reads what they print.
func (e *execution) copySessions(from string) error {
	if from == "" {
		return nil
	}
	if err := e.dropSessions(); err != nil { // what a life left that died before it ran
		return err
	}
	kept, err := e.kept.open()
	if err != nil {
		return err
	}
	if err := os.CopyFS(kept.Place(e.route.Execution), os.DirFS(from)); err != nil {
		return fmt.Errorf("copy a snapshot's sessions: %w", err)
	}
	return nil
}

// grow makes the disk as large as it's to be; the guest makes its file system larger when it boots.
func (e *execution) grow(bytes int64) error {
	info, err := os.Stat(e.file(diskName))
	if err != nil {
		return err
	}
	if info.Size() >= bytes {
		return nil
	}
	if err := os.Truncate(e.file(diskName), bytes); err != nil {
		return fmt.Errorf("make the disk larger: %w", err)
	}
	return nil
}
