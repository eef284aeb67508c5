package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/space-platform/space/internal/proc"
)

// keeper keeps one program running. One goroutine owns it.
type keeper struct {
	program  Program
	dirs     Dirs
	restarts int
	lastExit string
}

// life is a process that a keeper watches: one that it started, or one that it found.
type life struct {
	rec   Record
	pidfd *os.File
	child *exec.Cmd // nil if the process was found
}

// run starts or adopts the program, tells so once by closing up, and starts it again after each death until the context ends. The
// program itself lives on then.
func (k *keeper) run(ctx context.Context, up chan<- struct{}) {
	var wait time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		l, err := k.begin()
		if up != nil {
			close(up)
			up = nil
		}
		if err != nil {
			slog.Error("a role was not started", "of", k.program.Name, "err", err)
			k.lastExit = err.Error()
		} else {
			k.watch(ctx, l)
		}
		if ctx.Err() != nil {
			return
		}
		k.restarts++
		wait = backoff(wait, time.Since(began))
		slog.Warn("a role is started again", "of", k.program.Name, "last_exit", k.lastExit, "after", wait.String(), "restarts", k.restarts)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// begin finds the program's living process, or starts one and writes down which.
func (k *keeper) begin() (life, error) {
	rec, err := Read(k.dirs.Run, k.program.Name)
	if err == nil && rec.UID == k.program.UID && rec.Alive() {
		return k.adopt(rec)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("a pid file is of no use", "err", err)
	}
	return k.start()
}

func (k *keeper) adopt(rec Record) (life, error) {
	fd, err := proc.Open(rec.ID)
	if err != nil {
		return life{}, fmt.Errorf("adopt %s: %w", k.program.Name, err)
	}
	k.restarts, k.lastExit = rec.Restarts, rec.LastExit
	slog.Info("a role was found alive", "of", k.program.Name, "pid", rec.PID)
	return life{rec: rec, pidfd: fd}, nil
}

func (k *keeper) start() (life, error) {
	c, err := start(k.program, k.dirs.Log)
	if err != nil {
		return life{}, err
	}
	l, err := k.note(c)
	if err != nil {
		c.Process.Kill() // a process that nobody could find again must not live
		c.Wait()
		return life{}, fmt.Errorf("start %s: %w; it ended with %s", k.program.Name, err, c.ProcessState)
	}
	slog.Info("a role was started", "of", k.program.Name, "pid", l.rec.PID)
	return l, nil
}

// note writes the pid file of a process that was just started.
func (k *keeper) note(c *exec.Cmd) (life, error) {
	rec, err := record(c.Process.Pid, k.program.UID, time.Now())
	if err != nil {
		return life{}, err
	}
	rec.Restarts, rec.LastExit = k.restarts, k.lastExit
	if err := write(k.dirs.Run, k.program.Name, rec); err != nil {
		return life{}, err
	}
	fd, err := proc.Open(rec.ID)
	if err != nil {
		return life{}, err
	}
	return life{rec: rec, pidfd: fd, child: c}, nil
}

// watch returns when the process or the context has ended; on an error as well, after which a living process is found again.
func (k *keeper) watch(ctx context.Context, l life) {
	defer l.pidfd.Close()
	if err := proc.Wait(ctx, l.pidfd); err != nil {
		k.lastExit = err.Error()
		return
	}
	k.lastExit = "ended" // the exit of a process that isn't ours is nobody's to see
	if l.child != nil {
		l.child.Wait()
		k.lastExit = l.child.ProcessState.String()
	}
}

// sleep waits, and returns false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
