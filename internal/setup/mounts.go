package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// mountsBelow returns the mount points in or below directories, the last mounted first.
func mountsBelow(dirs ...string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	out := mountPoints(string(b), dirs)
	slices.Reverse(out)
	return out, nil
}

// mountPoints reads the fifth field of each line of mountinfo.
func mountPoints(mountinfo string, dirs []string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		point := unescape.Replace(f[4])
		if slices.ContainsFunc(dirs, func(d string) bool { return point == d || strings.HasPrefix(point, d+"/") }) {
			out = append(out, point)
		}
	}
	return out
}

// unescape undoes what the kernel does to white space and backslashes in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ownMounts returns what the instance mounted. A file system that the operator mounted for the data directory, or for a role's part of it, isn't
// the instance's.
func ownMounts(i instance.Instance) ([]string, error) { return mountsBelow(i.Volume(), i.RunDir()) }

// unmountAll unmounts what the instance mounted. What stays busy is detached: its data is written when its last user ends.
func unmountAll(ctx context.Context, i instance.Instance) error {
	mounts, err := ownMounts(i)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		err := whileBusy(ctx, func() error { return unix.Unmount(m, unix.UMOUNT_NOFOLLOW) })
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(m, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return nil
}

// loops returns the loop devices whose backing file lies in the instance's data directory.
func loops(i instance.Instance) ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // detached meanwhile
		}
		if strings.HasPrefix(string(b), i.DataDir()+"/") {
			out = append(out, filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(f)))))
		}
	}
	return out, nil
}

func detachLoops(ctx context.Context, i instance.Instance) error {
	devices, err := loops(i)
	if err != nil {
		return err
	}
	for _, path := range devices {
		dev, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("detach loop device: %w", err)
		}
		err = whileBusy(ctx, func() error { return unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0) })
		dev.Close()
		if err != nil && !errors.Is(err, unix.ENXIO) {
			return fmt.Errorf("detach loop device %s: %w", path, err)
		}
	}
	return nil
}
