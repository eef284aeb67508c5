package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	consolePath = "/dev/ttyS0" // the kernel's, and ours
	outputPath  = "/dev/ttyS1" // the command's
	diskPath    = "/dev/vda"
	lowerRoot   = "/lower" // the disk
	upperRoot   = "/upper" // what is written
	newRoot     = "/new"   // both together
	upperSize   = "8g"     // more than there is memory: what is full then is that
	cgroupTop   = "/sys/fs/cgroup"
)

// live is the L1's first process: it makes the machine usable, runs the command, says how it ended, and ends the machine.
func live() {
	code, err := serve()
	say := func(format string, args ...any) {
		if f, oerr := os.OpenFile(consolePath, os.O_WRONLY, 0); oerr == nil {
			fmt.Fprintf(f, format, args...)
			f.Close()
		}
	}
	if err != nil {
		say("\nl1: %v\n", err)
	} else {
		say("\nl1: the command ended with %d\n", code)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func serve() (code int, err error) {
	for _, step := range []func() error{mountKernel, loadModules, enterDisk, mountMemory, nameAndConnect} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	var o order
	b, err := os.ReadFile("/" + orderName)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return 0, err
	}
	if err := mountCgroups(o.Cgroup); err != nil {
		return 0, err
	}
	if err := errors.Join(holdMachine(), holdCgroup(o.Cgroup)); err != nil {
		return 0, err
	}
	return runCommand(o)
}

// runCommand runs the command with the second serial port as its output.
func runCommand(o order) (int, error) {
	out, err := os.OpenFile(outputPath, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if err := raw(out); err != nil {
		return 0, err
	}
	os.Setenv("PATH", "/usr/sbin:/usr/bin")
	c := exec.Command(o.Command[0], o.Command[1:]...)
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C", "TMPDIR=/tmp"}, o.Env...)
	c.Dir = "/root"
	c.Stdout, c.Stderr = out, out
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s := exit.Sys().(interface{ Signaled() bool }); s.Signaled() {
			return 128, nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// raw keeps the port from changing what is written to it.
func raw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("set the output's mode: %w", err)
	}
	t.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

func mount(source, target, kind, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, 0, options); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

func mountKernel() error {
	return errors.Join(mount("dev", "/dev", "devtmpfs", ""), mount("proc", "/proc", "proc", ""), mount("sys", "/sys", "sysfs", ""))
}

// loadModules loads what the initramfs has. One that doesn't fit this machine isn't missed until something needs it.
func loadModules() error {
	list, err := os.ReadFile("/modules/order")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		f, err := os.Open(filepath.Join("/modules", name))
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			fmt.Fprintf(os.Stderr, "l1: load module %s: %v\n", name, err)
		}
		f.Close()
	}
	return nil
}

// enterDisk makes the disk the root, below a layer in memory that has all that is written: the disk is only emulated, and on a busy host it has kept writers
// waiting for minutes. The root is moved over the initramfs, which nothing can pivot from.
func enterDisk() error {
	if err := os.MkdirAll(lowerRoot, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(diskPath, lowerRoot, "ext4", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the disk: %w", err)
	}
	if err := mount("upper", upperRoot, "tmpfs", "mode=755,size="+upperSize); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(upperRoot+"/files", 0o755), os.Mkdir(upperRoot+"/work", 0o755)); err != nil {
		return err
	}
	if err := mount("root", newRoot, "overlay", "lowerdir="+lowerRoot+",upperdir="+upperRoot+"/files,workdir="+upperRoot+"/work"); err != nil {
		return err
	}
	for _, d := range []string{"dev", "proc", "sys"} {
		if err := unix.Mount("/"+d, newRoot+"/"+d, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move /%s: %w", d, err)
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	return errors.Join(unix.Chroot("."), unix.Chdir("/"))
}

// mountMemory mounts what is in memory elsewhere, too. A file in /tmp has one inode, which in the root's layers it may not have: a machine's memory is known by it.
func mountMemory() error {
	return errors.Join(
		mount("run", "/run", "tmpfs", "mode=755"), mount("tmp", "/tmp", "tmpfs", "mode=1777,size=75%"), os.MkdirAll("/run/lock", 0o755),
		mount("shm", "/dev/shm", "tmpfs", ""), mount("pts", "/dev/pts", "devpts", ""),
	)
}

// nameAndConnect gives the machine a name and its loopback.
func nameAndConnect() error {
	if err := unix.Sethostname([]byte("l1")); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("start the loopback: %w", err)
	}
	return nil
}

// mountCgroups mounts the version that is asked for, as systemd or as machines before it have it.
func mountCgroups(version int) error {
	if version == 2 {
		return mount("cgroup2", cgroupTop, "cgroup2", "")
	}
	if err := mount("cgroup", cgroupTop, "tmpfs", "mode=755"); err != nil {
		return err
	}
	for _, c := range []string{"memory", "cpu,cpuacct", "pids", "freezer"} {
		if err := mount("cgroup", filepath.Join(cgroupTop, c), "cgroup", c); err != nil {
			return err
		}
	}
	return nil
}
