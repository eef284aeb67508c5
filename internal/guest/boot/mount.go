package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// disk is where the root file system is, if the machine has one.
const disk = "/dev/vda"

// diskType is the file system of every template.
const diskType = "ext4"

// newRoot is where the disk is mounted before it becomes the root.
const newRoot = "/root-of-disk"

// runDir is the agent's directory in memory.
const runDir = "/run/space"

// mount is one file system to mount.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

const (
	safe   = unix.MS_NOSUID | unix.MS_NODEV
	safest = safe | unix.MS_NOEXEC
)

// mountKernel mounts what the agent needs from the first moment on, below root.
func mountKernel(root string) error {
	return mountAll([]mount{
		{"proc", path.Join(root, "proc"), "proc", safest, ""},
		{"sysfs", path.Join(root, "sys"), "sysfs", safest, ""},
		{"devtmpfs", path.Join(root, "dev"), "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	})
}

// mountImage mounts the rest of what a container image expects to find.
func mountImage() error {
	err := mountAll([]mount{
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"tmpfs", "/dev/shm", "tmpfs", safe, "mode=1777"},
		{"mqueue", "/dev/mqueue", "mqueue", safest, ""},
		{"tmpfs", "/run", "tmpfs", safe, "mode=0755"},
	})
	if err != nil {
		return err
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
		"/dev/ptmx": "pts/ptmx",
	} {
		if err := symlink(target, link); err != nil {
			return err
		}
	}
	if err := makeTmp(); err != nil {
		return err
	}
	return os.MkdirAll(runDir, 0o755)
}

// makeTmp makes sure of /tmp; where the image has one it's left as it is.
func makeTmp() error {
	if err := os.Mkdir("/tmp", 0o777); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("make /tmp: %w", err)
	}
	return os.Chmod("/tmp", 0o777|fs.ModeSticky)
}

// symlink replaces what is at the path, which the kernel may have put there.
func symlink(target, link string) error {
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", link, err)
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	return nil
}

// mountAll mounts in order and makes the directories. A kernel without one of the file systems does without it, except for proc, sysfs
// and devtmpfs, without which nothing works.
func mountAll(list []mount) error {
	for _, m := range list {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("make the directory for %s: %w", m.kind, err)
		}
		err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENODEV) && m.kind == "mqueue" {
			continue // the kernel mounts devtmpfs itself in some configurations
		}
		if err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

// enterDisk makes the disk the root, if there is one. The initramfs is the kernel's first root, which can't be pivoted away from: the
// mounts move below the new root, and that moves over the old one.
func enterDisk() error {
	if _, err := os.Stat(disk); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := mountAll([]mount{{disk, newRoot, diskType, unix.MS_NOATIME, ""}}); err != nil {
		return err
	}
	if err := grow(disk, newRoot); err != nil { // it works as it is, only with less room than its owner has paid for
		fmt.Fprintf(os.Stderr, "spaced-guest: %v\n", err)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := os.MkdirAll(newRoot+dir, 0o755); err != nil {
			return fmt.Errorf("make %s on the disk: %w", dir, err)
		}
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to the disk: %w", dir, err)
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return fmt.Errorf("enter the disk: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the disk to the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root to the disk: %w", err)
	}
	return os.Chdir("/")
}
