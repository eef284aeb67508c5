package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/space-platform/space/internal/proc"
)

// maxPidFileBytes bounds what is read of a pid file; ours have a few hundred bytes.
const maxPidFileBytes = 16 << 10

// Record is what a pid file says of a role. Its only writer is who starts the role: the supervisor, or systemd's unit.
type Record struct {
	proc.ID
	UID       int       `json:"uid"`
	StartedAt time.Time `json:"started_at"`
	Restarts  int       `json:"restarts"`            // since the platform went up
	LastExit  string    `json:"last_exit,omitempty"` // how the process before this one ended
}

// Alive tells whether the recorded process runs: same pid, start time, boot and uid.
func (r Record) Alive() bool {
	if !r.ID.Alive() {
		return false
	}
	uid, err := proc.UID(r.PID)
	return err == nil && uid == r.UID
}

func pidFile(dir, name string) string { return filepath.Join(dir, name+".pid") }

// Read returns the record of a role; fs.ErrNotExist if it has none.
func Read(dir, name string) (Record, error) {
	path := pidFile(dir, name)
	st, err := os.Stat(path)
	if err != nil {
		return Record{}, fmt.Errorf("read pid file of %s: %w", name, err)
	}
	if st.Size() > maxPidFileBytes {
		return Record{}, fmt.Errorf("read pid file %s: %d bytes, at most %d", path, st.Size(), maxPidFileBytes)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("read pid file of %s: %w", name, err)
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("read pid file %s: %w", path, err)
	}
	return r, nil
}

// write replaces a pid file in one step, so that a reader sees the old record or the new one.
func write(dir, name string, r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write pid file of %s: %w", name, err)
	}
	tmp := pidFile(dir, name) + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write pid file of %s: %w", name, err)
	}
	if err := os.Rename(tmp, pidFile(dir, name)); err != nil {
		return fmt.Errorf("write pid file of %s: %w", name, err)
	}
	return nil
}

func remove(dir, name string) error {
	if err := os.Remove(pidFile(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pid file of %s: %w", name, err)
	}
	return nil
}

// record names the process of a pid that this process has just started, or itself.
func record(pid, uid int, now time.Time) (Record, error) {
	id, err := proc.Read(pid)
	if err != nil {
		return Record{}, err
	}
	return Record{ID: id, UID: uid, StartedAt: now.UTC()}, nil
}

// Note writes the pid file of a role that somebody else than this package's supervisor has started. An earlier process of the same boot was one that
// it replaces.
func Note(dir, name string, uid, pid int) error {
	rec, err := record(pid, uid, time.Now())
	if err != nil {
		return fmt.Errorf("note the process of %s: %w", name, err)
	}
	if !rec.Alive() {
		return fmt.Errorf("note the process of %s: process %d isn't one of uid %d", name, pid, uid)
	}
	if before, err := Read(dir, name); err == nil && before.BootID == rec.BootID {
		rec.Restarts = before.Restarts
		if before.ID != rec.ID {
			rec.Restarts++
		}
	}
	return write(dir, name, rec)
}
