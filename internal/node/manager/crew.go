package manager

import (
	"context"
	"sync"
)

// crew runs at most one worker per key, and only while there is something to do.
type crew struct {
	ctx  context.Context // of all workers
	work func(ctx context.Context, key string, woken <-chan struct{})

	wg    sync.WaitGroup
	mu    sync.Mutex
	wakes map[string]chan struct{} // of the keys that have a worker; one slot each, so kicks coalesce
}

// newCrew makes a crew whose workers call work, which returns when nothing is left to do for its key.
func newCrew(ctx context.Context, work func(ctx context.Context, key string, woken <-chan struct{})) *crew {
	return &crew{ctx: ctx, work: work, wakes: map[string]chan struct{}{}}
}

// kick has a key looked at: by a new worker, or by the one that it has. It never blocks.
func (c *crew) kick(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	wake, ok := c.wakes[key]
	if !ok {
		wake = make(chan struct{}, 1)
		c.wakes[key] = wake
		c.wg.Go(func() { c.run(key, wake) })
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (c *crew) run(key string, wake chan struct{}) {
	for c.more(key, wake) {
		c.work(c.ctx, key, wake)
	}
}

// more reports whether a key was kicked since its worker last looked; if not the worker ends, under the lock that kick takes.
func (c *crew) more(key string, wake chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil {
		select {
		case <-wake:
			return true
		default:
		}
	}
	delete(c.wakes, key)
	return false
}

// wait returns when all workers have ended, after the crew's context has.
func (c *crew) wait() { c.wg.Wait() }
