package kernel

import (
	"context"
	"time"
)

// lockInterval is how often a held lock is tried again: the kernel has no lock that a context could end.
const lockInterval = 100 * time.Millisecond

func pause(ctx context.Context) error {
	t := time.NewTimer(lockInterval)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
