package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRunning is returned when another supervisor holds the instance.
var ErrRunning = errors.New("another supervisor runs")

// lockPoll is how often acquire looks again: the kernel offers no wait with a deadline on a file lock.
const lockPoll = 20 * time.Millisecond

// lock takes the instance for this process until the file is closed. ErrRunning if another one has it.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "supervisor.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, ErrRunning)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// acquire takes the instance as soon as its holder lets go, or returns the context's error.
func acquire(ctx context.Context, dir string) (*os.File, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		f, err := lock(dir)
		if !errors.Is(err, ErrRunning) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Running tells whether a supervisor holds the instance now.
func Running(dir string) bool {
	f, err := lock(dir)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrRunning)
}
