package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// enclosures are directories for sockets, and uids: what is needed to find the processes of a machine again.
type enclosures struct{ dir string }

// Enclose makes the directory.
func (e enclosures) Enclose(_ context.Context, s jail.Spec) (vmm.Enclosure, error) {
	out := e.Find(s)
	return out, os.MkdirAll(out.Dir, 0o700)
}

// Find implements execution.Enclosures.
func (e enclosures) Find(s jail.Spec) vmm.Enclosure {
	return vmm.Enclosure{ID: s.ID, UID: s.UID, Dir: filepath.Join(e.dir, s.ID), Starter: starter{s.UID}}
}

// Measure measures nothing, and Weigh weighs nothing.
func (enclosures) Measure(jail.Spec) (jail.Usage, error) { return jail.Usage{}, nil }
func (enclosures) Weigh(jail.Spec) error                 { return nil }

// Remove ends what runs under the uid, if anything ever did, and removes the directory.
func (e enclosures) Remove(ctx context.Context, s jail.Spec) error {
	dir := filepath.Join(e.dir, s.ID)
	left, err := os.ReadDir(dir)
	if err == nil && len(left) > 0 { // a socket: it has processes
		err = jail.EndUID(ctx, s.UID)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// starter starts programs as the enclosure's uid, which they take for root, and confines them by nothing else.
type starter struct{ uid int }

// Start starts a program that outlives this one.
func (s starter) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	if err := ctx.Err(); err != nil {
		return vmm.Process{}, err
	}
	if len(c.Bind) > 0 || c.Jailer != "" {
		return vmm.Process{}, errors.New("there is no root directory to put files into")
	}
	pidfd := -1
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, c.Files
	if c.Log != nil {
		cmd.Stdout, cmd.Stderr = c.Log, c.Log
	}
	only := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.uid, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, PidFD: &pidfd, Credential: &syscall.Credential{},
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: only, GidMappings: only, GidMappingsEnableSetgroups: true,
	}
	if err := cmd.Start(); err != nil {
		return vmm.Process{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	start, err := proc.StartTime(cmd.Process.Pid)
	go cmd.Wait() // ends with the program, or with this one
	if err != nil {
		return vmm.Process{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return vmm.Process{PID: cmd.Process.Pid, StartTime: start, PIDFD: os.NewFile(uintptr(pidfd), fmt.Sprintf("pidfd:%d", cmd.Process.Pid))}, nil
}

// Lend can't be done.
func (starter) Lend(context.Context, vmm.Handle, map[string]*os.File) (func() error, error) {
	return nil, errors.New("there is no root directory to lend a file into")
}

// TakeBack has nothing to do.
func (starter) TakeBack(context.Context, vmm.Handle, []string) error { return nil }
