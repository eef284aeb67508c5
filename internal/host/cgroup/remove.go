package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/proc"
)

const (
	// removeRetry is the pause between two tries: a process that has ended leaves its group a little later, and v1 tells nobody.
	removeRetry = time.Millisecond
	// removeTimeout bounds them.
	removeTimeout = 5 * time.Second
	// killGrace is how long one killed process may take to be gone.
	killGrace = 5 * time.Second
	// killRounds bounds how often the members are listed and killed: a process may fork between the two, within the limit of pids, and
	// one that has ended may be listed for a moment.
	killRounds = 200
)

// Kill ends every process of the group and returns when they're gone. No group is no error. The caller must not be a member.
func (g Group) Kill(ctx context.Context) error {
	if g.hierarchy.version == 2 { // cgroup.kill exists since kernel 5.14; the rounds below wait for the end, and do the work before that
		if err := write(g.file("", "cgroup.kill"), "1"); err != nil && !isGone(err) {
			return fmt.Errorf("kill cgroup %s: %w", g.path, err)
		}
	}
	pause := time.NewTicker(removeRetry)
	defer pause.Stop()
	for range killRounds {
		pids, err := g.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := g.killMember(ctx, pid); err != nil {
				return fmt.Errorf("kill cgroup %s: %w", g.path, err)
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("kill cgroup %s: %w", g.path, ctx.Err())
		}
	}
	return fmt.Errorf("kill cgroup %s: it still has processes after %d rounds", g.path, killRounds)
}

// killMember ends a process if it's a member still: between the list and the pidfd the number may have gone to somebody else.
func (g Group) killMember(ctx context.Context, pid int) error {
	id, err := proc.Read(pid)
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := proc.Open(id)
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	if member, err := g.has(pid); err != nil || !member {
		return err
	}
	return proc.Kill(ctx, fd, killGrace)
}

// has tells whether a process says that it's in the group.
func (g Group) has(pid int) (bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && within(f[2], g.path) {
			return true, nil
		}
	}
	return false, nil
}

// within tells whether a process's path in a tree, which the tree's own root may precede, ends in the group's.
func within(path, group string) bool { return path == "/"+group || strings.HasSuffix(path, "/"+group) }

// Remove removes the group, which must have no processes or only ones that are ending: it retries for removeTimeout. No group is no error.
func (g Group) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, root := range g.hierarchy.trees() {
		if err := removeDir(ctx, filepath.Join(root, g.path)); err != nil {
			return fmt.Errorf("remove cgroup %s: %w", g.path, err)
		}
	}
	return nil
}

func removeDir(ctx context.Context, dir string) error {
	pause := time.NewTicker(removeRetry)
	defer pause.Stop()
	for {
		err := unix.Rmdir(dir)
		if err == nil || isGone(err) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s: %w", dir, err)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", dir, err, ctx.Err())
		}
	}
}
