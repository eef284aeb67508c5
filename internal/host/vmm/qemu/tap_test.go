package qemu

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

// TestATapIsWaitedForWhileItsMakerLetsGo holds a device as a process does that is just being started.
func TestATapIsWaitedForWhileItsMakerLetsGo(t *testing.T) {
	const name = "tapwait"
	netns := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var held *os.File
	if err := thread.Run(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := unix.Mount("/proc/thread-self/ns/net", netns, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if held, err = attach(name); err != nil {
			return err
		}
		return unix.IoctlSetInt(int(held.Fd()), unix.TUNSETPERSIST, 1)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(netns, unix.MNT_DETACH) })
	letGo := time.AfterFunc(50*time.Millisecond, func() { held.Close() })
	defer letGo.Stop()
	f, err := openTap(netns, name)
	if err != nil {
		t.Fatalf("a device that is let go of meanwhile: %v", err)
	}
	defer f.Close()
	begin := time.Now()
	if _, err := openTap(netns, name); err == nil || time.Since(begin) < busyTime {
		t.Errorf("a device that stays busy: %v after %s", err, time.Since(begin))
	}
}
