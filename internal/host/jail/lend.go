package jail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// Lend mounts open files over places in the root directory of a program. It can do nothing with them that their owners and modes don't allow.
func (s *starter) Lend(ctx context.Context, h vmm.Handle, files map[string]*os.File) (giveBack func() error, err error) {
	give := func() error { return s.takeBack(h, slices.Sorted(maps.Keys(files))) }
	if err := s.lend(ctx, h, files); err != nil {
		return nil, errors.Join(fmt.Errorf("lend files to process %d of enclosure %s: %w", h.PID, s.spec.ID, err), give())
	}
	return give, nil
}

// TakeBack takes off what lies over places.
func (s *starter) TakeBack(ctx context.Context, h vmm.Handle, places []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.takeBack(h, places)
}

func (s *starter) lend(ctx context.Context, h vmm.Handle, files map[string]*os.File) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	mounts := map[string]int{} // made here: in the program's namespace the files' own mounts are out of reach
	defer func() {
		for _, m := range mounts {
			unix.Close(m)
		}
	}()
	for path, f := range files {
		if mounts[path], err = detached(f); err != nil {
			delete(mounts, path)
			return err
		}
	}
	return inMountsOf(h, func() error {
		for _, path := range slices.Sorted(maps.Keys(mounts)) {
			if err := cover(path, mounts[path]); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	})
}

// takeBack takes files off again, all that lie over each other at a path. A program that is gone has none.
func (s *starter) takeBack(h vmm.Handle, paths []string) error {
	err := inMountsOf(h, func() error {
		for _, path := range paths {
			if err := uncover(path); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, proc.ErrGone) {
		return fmt.Errorf("take back files from process %d of enclosure %s: %w", h.PID, s.spec.ID, err)
	}
	return nil
}

// uncover takes off what is mounted at a path until nothing is.
func uncover(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) { // nothing is mounted there
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inMountsOf calls f on a thread that is in a process's mount namespace, whose root directory is then the process's.
func inMountsOf(h vmm.Handle, f func() error) error {
	pidfd, err := proc.Open(proc.ID{PID: h.PID, StartTime: h.StartTime, BootID: h.BootID})
	if err != nil {
		return err
	}
	defer pidfd.Close()
	return thread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := unix.Setns(int(pidfd.Fd()), unix.CLONE_NEWNS); err != nil {
			if errors.Is(err, unix.ESRCH) {
				err = proc.ErrGone
			}
			return fmt.Errorf("enter its mount namespace: %w", err)
		}
		return f()
	})
}

// cover attaches a mount over the file at a path. The path is walked without following a link, which the program may have planted; what it
// could reach by that is only what it has anyway.
func cover(path string, mount int) error {
	at, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// detached makes a mount of an open file that is nowhere yet.
func detached(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	mount := -1
	cerr := raw.Control(func(fd uintptr) {
		mount, err = unix.OpenTree(int(fd), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	})
	if err := errors.Join(cerr, err); err != nil {
		return -1, fmt.Errorf("make a mount of %s: %w", f.Name(), err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(mount)
		return -1, fmt.Errorf("restrict the mount: %w", err)
	}
	return mount, nil
}
