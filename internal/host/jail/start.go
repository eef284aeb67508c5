package jail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/host/thread"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// environment is all that a program gets of it.
var environment = []string{"PATH=/usr/bin", "LC_ALL=C"}

// starter runs programs in one enclosure.
type starter struct {
	jail *Jail
	spec Spec
}

// Start runs a program inside and returns when it has been executed. When it fails no process is left.
func (s *starter) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	p, err := s.start(ctx, c)
	if err != nil {
		return vmm.Process{}, fmt.Errorf("start %s in enclosure %s: %w", c.Path, s.spec.ID, err)
	}
	return p, nil
}

func (s *starter) start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	if err := errors.Join(ctx.Err(), s.jail.check(s.spec), checkPaths(c)); err != nil {
		return vmm.Process{}, err
	}
	group, err := s.jail.group(s.spec.ID)
	if err != nil {
		return vmm.Process{}, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return vmm.Process{}, err
	}
	defer null.Close()
	// What this process inherited without the flag would be inherited on. What is passed on by the fork is exempt.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return vmm.Process{}, fmt.Errorf("mark descriptors: %w", err)
	}
	l := &launch{starter: s, command: c, group: group, null: null, limits: limitsFor(c)}
	err = thread.Run(l.run)
	if l.groupDir != nil {
		l.groupDir.Close()
	}
	if err != nil {
		return vmm.Process{}, err
	}
	return s.adopt(ctx, l)
}

// adopt finishes what can only be done from outside, and begins to wait for the process's end. Until then the pid is the child's, alive
// or not.
func (s *starter) adopt(ctx context.Context, l *launch) (vmm.Process, error) {
	pidfd := os.NewFile(uintptr(l.pidfd), fmt.Sprintf("pidfd:%d", l.pid))
	start, err := proc.StartTime(l.pid)
	if err == nil {
		err = l.limits.apply(l.pid, s.spec.UID)
	}
	if ended, _ := proc.Ended(pidfd); err == nil || ended { // one that has ended already needs no limits
		return vmm.Process{PID: l.pid, StartTime: start, PIDFD: pidfd, Exit: s.jail.reap(l.pid, pidfd)}, nil
	}
	err = errors.Join(err, proc.Kill(context.WithoutCancel(ctx), pidfd, killGrace))
	s.jail.reap(l.pid, pidfd)
	pidfd.Close()
	return vmm.Process{}, err
}

// launch is one start of a program, and its result.
type launch struct {
	*starter
	command vmm.Command
	group   cgroup.Group
	null    *os.File
	limits  limits

	groupDir *os.File // v2 only
	pid      int
	pidfd    int
}

// run makes the calling thread an inhabitant of the enclosure, forks the program off it, and must be the last that the thread does. The
// order matters: the cgroup's files and the bound ones are out of reach once the root has changed, and rights are given up last.
func (l *launch) run() error {
	attr, joined, err := l.join()
	if err != nil {
		return err
	}
	err = l.enter()
	if err := errors.Join(err, <-joined); err != nil {
		return err
	}
	if l.command.Jailer != "" {
		attr.Credential = &syscall.Credential{} // root without groups
		attr.Cloneflags = unix.CLONE_NEWPID
	}
	if err := thread.DropPrivileges(l.keep()...); err != nil {
		return err
	}
	return l.fork(attr)
}

// join sees to it that the program is born in the enclosure's cgroup: on v2 by clone, on v1 because its parent thread is there. Moving a
// thread waits for all CPUs to pass through the scheduler, so that's done while the thread builds its root.
func (l *launch) join() (*syscall.SysProcAttr, <-chan error, error) {
	attr := &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(l.spec.UID), Gid: uint32(l.spec.UID)},
		Setsid:     true,
		PidFD:      &l.pidfd,
	}
	joined := make(chan error, 1)
	if l.jail.groups.Version() == 2 {
		dir, err := l.group.Dir()
		if err != nil {
			return nil, nil, fmt.Errorf("open its cgroup: %w", err)
		}
		l.groupDir = dir
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
		joined <- nil
		return attr, joined, nil
	}
	tid := unix.Gettid()
	go func() { joined <- l.group.AddThread(tid) }()
	return attr, joined, nil
}

// jailerCapabilities are what a VMM's jailer needs to make a root directory with devices, to make it its root, and to become another user.
var jailerCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_MKNOD, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID,
}

// keep are the capabilities that the program starts with.
func (l *launch) keep() []uintptr {
	if l.command.Jailer == "" {
		return nil
	}
	return jailerCapabilities
}

// enter moves the thread into the namespaces and the root directory.
func (l *launch) enter() error {
	if err := netns.Enter(netns.Path(l.jail.netNS(l.spec.ID))); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare namespaces: %w", err)
	}
	if err := unix.Sethostname([]byte("machine")); err != nil {
		return fmt.Errorf("hide the host's name: %w", err)
	}
	return buildRoot(filepath.Join(l.jail.dirOf(l.spec.ID), rootName), l.spec.UID, l.command)
}

// fork executes the program. syscall.ForkExec reports an error of the exec, too.
func (l *launch) fork(attr *syscall.SysProcAttr) error {
	log := l.null
	if l.command.Log != nil {
		log = l.command.Log
	}
	files := []uintptr{l.null.Fd(), log.Fd(), log.Fd()}
	for _, f := range l.command.Files {
		files = append(files, f.Fd())
	}
	args := append([]string{l.command.Path}, l.command.Args...)
	pid, err := syscall.ForkExec(l.command.Path, args, &syscall.ProcAttr{Env: environment, Files: files, Sys: attr})
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	l.pid = pid
	return nil
}

// reap waits for a child's end in the background, so that it doesn't stay a zombie, and tells how it ended. It keeps a descriptor of its own.
func (j *Jail) reap(pid int, pidfd *os.File) <-chan unix.WaitStatus {
	exit := make(chan unix.WaitStatus, 1)
	own, err := unix.FcntlInt(pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return exit // no descriptor is left: a zombie then stays until this process ends
	}
	f := os.NewFile(uintptr(own), pidfd.Name())
	j.reapers.Go(func() {
		defer f.Close()
		if proc.Wait(j.ctx, f) != nil {
			return
		}
		var status unix.WaitStatus
		if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err == nil && got == pid {
			exit <- status
		}
	})
	return exit
}

// checkPaths refuses what isn't an absolute path without detours.
func checkPaths(c vmm.Command) error {
	if !filepath.IsAbs(c.Path) || filepath.Clean(c.Path) != c.Path {
		return fmt.Errorf("program %q: want an absolute path", c.Path)
	}
	inside := slices.Concat(slices.Collect(maps.Keys(c.Bind)), c.Places)
	if c.Jailer != "" {
		inside = append(inside, c.Jailer)
	}
	for _, path := range inside {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
			return fmt.Errorf("%q: want an absolute path inside", path)
		}
	}
	for inside, src := range c.Bind {
		if !filepath.IsAbs(src.Path) || filepath.Clean(src.Path) != src.Path {
			return fmt.Errorf("bind %s: source %q: want an absolute path", inside, src.Path)
		}
	}
	return nil
}
