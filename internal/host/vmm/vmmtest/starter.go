package vmmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// Starter starts programs without any confinement, for tests: files that should be bound into a root directory are named by their host paths
// instead, wherever the arguments name them. Processes that still run at the end of the test are killed.
type Starter struct {
	t testing.TB

	mu      sync.Mutex
	started []vmm.Process
}

// NewStarter returns one that cleans up after the test.
func NewStarter(t testing.TB) *Starter { return &Starter{t: t} }

// Start runs a program as a child of the test.
func (s *Starter) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	if err := ctx.Err(); err != nil {
		return vmm.Process{}, err
	}
	cmd := exec.Command(onHost(c.Path, c.Bind), onHostAll(c.Args, c.Bind)...)
	cmd.ExtraFiles = c.Files
	if c.Log != nil {
		cmd.Stdout, cmd.Stderr = c.Log, c.Log
	}
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, PidFD: &pidfd}
	if err := cmd.Start(); err != nil {
		return vmm.Process{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	start, err := proc.StartTime(cmd.Process.Pid)
	reaped, exit := make(chan struct{}), make(chan unix.WaitStatus, 1)
	go func() {
		defer close(reaped)
		cmd.Wait()
		if state := cmd.ProcessState; state != nil {
			exit <- unix.WaitStatus(state.Sys().(syscall.WaitStatus))
		}
	}()
	s.t.Cleanup(func() { cmd.Process.Kill(); <-reaped })
	if err != nil {
		return vmm.Process{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p := vmm.Process{PID: cmd.Process.Pid, StartTime: start, PIDFD: os.NewFile(uintptr(pidfd), fmt.Sprintf("pidfd:%d", cmd.Process.Pid)), Exit: exit}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, p)
	return p, nil
}

// Lend can't be done: nothing here has a root directory of its own.
func (s *Starter) Lend(context.Context, vmm.Handle, map[string]*os.File) (giveBack func() error, err error) {
	return nil, errors.New("a program that isn't confined has no place to lend a file to")
}

// TakeBack has nothing to do.
func (s *Starter) TakeBack(context.Context, vmm.Handle, []string) error { return nil }

func onHostAll(args []string, bind map[string]vmm.Source) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = onHost(a, bind)
	}
	return out
}

// onHost replaces the bound paths in a text. None of a driver's is the beginning of another.
func onHost(text string, bind map[string]vmm.Source) string {
	for path, src := range bind {
		text = strings.ReplaceAll(text, path, src.Path)
	}
	return text
}
