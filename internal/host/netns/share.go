package netns

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// share makes a directory a shared mount of its own, unless it is one, in the way of ip-netns(8): the first 'ip netns add' would otherwise mount
// the directory onto itself and hide what is bound there already, which could be removed no more.
func share(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if makeShared(dir) {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil { // ip takes the same lock
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	if makeShared(dir) {
		return nil
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s onto itself: %w", dir, err)
	}
	if !makeShared(dir) {
		return errors.New("make " + dir + " a shared mount")
	}
	return nil
}

// makeShared makes a directory that is a mount point a shared one. It reports false for a directory that is none.
func makeShared(dir string) bool {
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "") == nil
}
