package proc_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/proc"
)

// child starts a process that waits until it's killed, and reaps it in the background.
func child(t *testing.T) (proc.ID, *exec.Cmd) {
	t.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { c.Wait(); close(reaped) }()
	t.Cleanup(func() { c.Process.Kill(); <-reaped })
	id, err := proc.Read(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id, c
}

func TestKillEndsTheProcessAndWaitSeesIt(t *testing.T) {
	id, _ := child(t)
	fd, err := proc.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if ended, err := proc.Ended(fd); err != nil || ended {
		t.Fatalf("Ended of a running process = %v, %v", ended, err)
	}
	if err := proc.Kill(t.Context(), fd, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := proc.Wait(t.Context(), fd); err != nil {
		t.Fatalf("second Wait: %v", err)
	}
	if ended, err := proc.Ended(fd); err != nil || !ended {
		t.Fatalf("Ended after Kill = %v, %v", ended, err)
	}
	if id.Alive() {
		t.Fatal("alive after Kill")
	}
	if err := proc.Kill(t.Context(), fd, 5*time.Second); err != nil {
		t.Fatalf("second Kill: %v", err)
	}
}

func TestWaitObeysItsContext(t *testing.T) {
	id, _ := child(t)
	fd, err := proc.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := proc.Wait(ctx, fd); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait = %v, want the deadline", err)
	}
	if err := proc.Wait(ctx, fd); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait with a dead context = %v, want the deadline", err)
	}
}

func TestOpenRefusesAnotherProcessWithThePID(t *testing.T) {
	id, _ := child(t)
	for name, wrong := range map[string]proc.ID{
		"start time": {PID: id.PID, StartTime: id.StartTime + 1, BootID: id.BootID},
		"boot":       {PID: id.PID, StartTime: id.StartTime, BootID: "another"},
		"no pid":     {PID: 0, BootID: id.BootID},
		"no process": {PID: 1 << 22, BootID: id.BootID},
	} {
		if f, err := proc.Open(wrong); !errors.Is(err, proc.ErrGone) {
			t.Errorf("%s: Open = %v, %v, want ErrGone", name, f, err)
		}
		if wrong.Alive() {
			t.Errorf("%s: alive", name)
		}
	}
}

func TestAZombieIsGone(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Read(c.Process.Pid); !errors.Is(err, proc.ErrGone) {
		t.Errorf("Read of a zombie = %v, want ErrGone", err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestUIDIsTheProcesss(t *testing.T) {
	uid, err := proc.UID(os.Getpid())
	if err != nil || uid != os.Geteuid() {
		t.Errorf("UID = %d, %v, want %d", uid, err, os.Geteuid())
	}
}
