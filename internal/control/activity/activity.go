// Package activity remembers when something was last done with sandboxes: an API call, a client that attaches, bytes that pass. It's written in bulk and
// coarsely, so that no request waits for it, and what a restart forgets is at most half a minute. What the list of activity is, is in docs/states.md.
package activity

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// flushEvery is how often what was seen is written.
const flushEvery = 30 * time.Second

// Store keeps it.
type Store interface {
	Touch(ctx context.Context, at map[string]time.Time) error
}

// Activity is what was seen of all sandboxes since the last write. There's an entry at most for each sandbox that there is.
type Activity struct {
	store Store

	mu   sync.Mutex           // guards seen
	seen map[string]time.Time // by sandbox, what isn't written yet
}

// New returns the activity that is kept in a store.
func New(store Store) *Activity { return &Activity{store: store, seen: map[string]time.Time{}} }

// Seen notes that something was done with a sandbox at a time.
func (a *Activity) Seen(sandbox string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen[sandbox].Before(at) {
		a.seen[sandbox] = at
	}
}

// Flush writes what was seen. If that fails it's written the next time.
func (a *Activity) Flush(ctx context.Context) error {
	a.mu.Lock()
	now := a.seen
	a.seen = map[string]time.Time{}
	a.mu.Unlock()
	if len(now) == 0 {
		return nil
	}
	err := a.store.Touch(ctx, now)
	if err != nil {
		for id, at := range now {
			a.Seen(id, at)
		}
	}
	return err
}

// Run writes what was seen until ctx ends.
func (a *Activity) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := a.Flush(ctx); err != nil && ctx.Err() == nil {
				slog.Warn("what was done with sandboxes can't be recorded; it's tried again", "err", err)
			}
		}
	}
}
