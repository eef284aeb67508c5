package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/proc"
)

const (
	supervisorGrace = 5 * time.Second  // the supervisor only has to let go
	killGrace       = 10 * time.Second // a killed process that is in an uninterruptible wait
)

// Stop ends the supervisor and then the programs, the last one first. It needs no supervisor: pid files say all. Each program has its
// grace, then it's killed. What didn't run is no error.
func Stop(ctx context.Context, dirs Dirs, programs []Program) error {
	if err := end(ctx, dirs.Run, Program{Name: Name, Stop: unix.SIGTERM, Grace: supervisorGrace}); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, supervisorGrace)
	defer cancel()
	held, err := acquire(wait, dirs.Run) // no supervisor starts what is being stopped
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a reboot has taken the directory, and everything with it
	}
	if err != nil {
		return err
	}
	defer held.Close()
	for _, p := range slices.Backward(programs) {
		if err := end(ctx, dirs.Run, p); err != nil {
			return err
		}
	}
	return nil
}

// end stops one program and removes its pid file.
func end(ctx context.Context, dir string, p Program) error {
	rec, err := Read(dir, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	if rec.Alive() {
		if err := endProcess(ctx, rec, p); err != nil {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}
	}
	return remove(dir, p.Name)
}

func endProcess(ctx context.Context, rec Record, p Program) error {
	fd, err := proc.Open(rec.ID)
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	if err := proc.Signal(fd, p.Stop); err != nil && !errors.Is(err, proc.ErrGone) {
		return err
	}
	grace, cancel := context.WithTimeout(ctx, p.Grace)
	defer cancel()
	if proc.Wait(grace, fd) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return proc.Kill(ctx, fd, killGrace)
}
