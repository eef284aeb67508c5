package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Open returns a pidfd of the process of an ID, which becomes readable when it has ended. ErrGone if it already has. The fd is taken
// first and the identity compared after: a pid that the kernel gave to somebody else in between doesn't match.
func Open(id ID) (*os.File, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			return nil, fmt.Errorf("open pidfd of process %d: %w", id.PID, ErrGone)
		}
		return nil, fmt.Errorf("open pidfd of process %d: %w", id.PID, err)
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", id.PID))
	now, err := Read(id.PID)
	if err == nil && now != id {
		err = fmt.Errorf("process %d started at %d, not at %d: %w", id.PID, now.StartTime, id.StartTime, ErrGone)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open pidfd: %w", err)
	}
	return f, nil
}

// Ended tells whether the process of a pidfd has ended.
func Ended(pidfd *os.File) (bool, error) {
	ended := false
	err := withFD(pidfd, func(fd int) error {
		var err error
		ended, err = poll(fd)
		return err
	})
	return ended, err
}

// Wait returns nil when the process of a pidfd has ended, or the context's error. It doesn't reap: a child's parent must. Any number of
// goroutines may wait for one process.
func Wait(ctx context.Context, pidfd *os.File) error {
	own, err := duplicate(pidfd) // deadlines belong to a File: with one of its own, a waiter disturbs no other
	if err != nil {
		return fmt.Errorf("wait for the end of %s: %w", pidfd.Name(), err)
	}
	defer own.Close()
	raw, err := own.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for the end of %s: %w", pidfd.Name(), err)
	}
	stop := context.AfterFunc(ctx, func() { own.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var pollErr error
	err = raw.Read(func(fd uintptr) bool {
		var ended bool
		ended, pollErr = poll(int(fd))
		return ended || pollErr != nil
	})
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	if err := cmp.Or(pollErr, err); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", pidfd.Name(), err)
	}
	return nil
}

// Signal sends a signal to the process of a pidfd. ErrGone if it has ended; a zombie takes any signal in silence.
func Signal(pidfd *os.File, s unix.Signal) error {
	err := withFD(pidfd, func(fd int) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", unix.SignalName(s), pidfd.Name(), ErrGone)
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", unix.SignalName(s), pidfd.Name(), err)
	}
	return nil
}

// Kill ends the process of a pidfd and waits until it's gone, at most for the grace: a process in an uninterruptible wait outlasts it.
// A process that has ended already is no error.
func Kill(ctx context.Context, pidfd *os.File, grace time.Duration) error {
	if err := Signal(pidfd, unix.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := Wait(ctx, pidfd); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", pidfd.Name(), err)
	}
	return nil
}

// End kills a process that was found by its identity and waits until it's gone, as Kill does. One that is gone already is fine.
func End(ctx context.Context, id ID, grace time.Duration) error {
	fd, err := Open(id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	return Kill(ctx, fd, grace)
}

// withFD calls f with the descriptor, which stays open meanwhile, without changing its mode as Fd would.
func withFD(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// poll tells whether a pidfd is readable now.
func poll(fd int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("poll a pidfd: %w", err)
		}
		return n > 0, nil
	}
}

// duplicate returns another File of the same process, known to the runtime's poller.
func duplicate(pidfd *os.File) (*os.File, error) {
	dup := -1
	err := withFD(pidfd, func(fd int) error {
		var err error
		dup, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(dup, true); err != nil {
		unix.Close(dup)
		return nil, err
	}
	return os.NewFile(uintptr(dup), pidfd.Name()), nil
}
