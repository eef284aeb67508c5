package manager

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the waits between tries: each twice the one before, from first to most, shortened by up to a quarter at random so that
// callers that failed together don't return together.
type backoff struct {
	first, most time.Duration
	last        time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(b.first, 2*b.last), b.most)
	return b.last - rand.N(b.last/4+1)
}

func (b *backoff) reset() { b.last = 0 }

// wait returns after d, or when ctx ends or woken is closed; a nil woken never is.
func wait(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
	}
}
