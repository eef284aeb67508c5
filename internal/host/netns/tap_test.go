package netns

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

// TestATapIsFreeWhenItIsMade makes taps while processes are started without a pause. Each has copies of all descriptors until it executes its program, and a
// tap takes one descriptor: a copy of its maker's would keep out a VMM that opens it by itself.
func TestATapIsFreeWhenItIsMade(t *testing.T) {
	const starters, taps = 4, 30
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range starters {
		all.Go(func() {
			for ctx.Err() == nil {
				exec.Command("/bin/true").Run()
			}
		})
	}
	err := thread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		for range taps {
			if err := makeTap(Tap{Name: "tap0", Owner: 301_234}); err != nil {
				return err
			}
			if err := takeTap(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// takeTap opens the device as a VMM does, of whose descriptors this process's children have no copies, and ends it.
func takeTap() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := attach("tap0")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 0)
}
