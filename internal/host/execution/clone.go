package execution

import (
	"fmt"
	"os"
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
	if e.cfg.Driver.Capabilities().SharedMemory || o.snapshot.Sealed != nil {
		uid = 0
	}
	return e.cfg.Clone(o.snapshot.Memory, e.file(memoryName), uid)
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
