// Package activity remembers when something was last done with sandboxes: an API call, a client that attaches, bytes that pass. It's written in bulk and
// coarsely, so that no request waits for it: of a sandbox with which nothing had been done for a while within a second, since another process of the API may be
// about to take it for idle, and else each half a minute, which is what a restart forgets. What the list of activity is, is in docs/states.md.
package activity

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	// flushEvery is how often what was seen is written. It's less than the shortest time that a sandbox may be idle, 60 s.
	flushEvery = 30 * time.Second
	// hurryEvery is how often it's written because of a sandbox that hasn't been written of since flushEvery.
	hurryEvery = time.Second
)

// Store keeps it.
type Store interface {
	Touch(ctx context.Context, at map[string]time.Time) error
	TouchSent(ctx context.Context, at map[string]time.Time) error // where what a sandbox sends counts
}

// Activity is what was seen of all sandboxes since the last write. There's an entry at most for each sandbox that there is.
type Activity struct {
	store Store

	hurry chan struct{} // holds something when what was seen must be written soon

	mu      sync.Mutex           // guards what follows
	seen    map[string]time.Time // by sandbox, what isn't written yet
	sent    map[string]time.Time // the same, of what sandboxes sent
	written map[string]time.Time // when it was written of each last, since flushEvery
}

// New returns the activity that is kept in a store.
func New(store Store) *Activity {
	return &Activity{store: store, hurry: make(chan struct{}, 1), seen: map[string]time.Time{}, sent: map[string]time.Time{}, written: map[string]time.Time{}}
}

// Seen notes that something was done with a sandbox at a time.
func (a *Activity) Seen(sandbox string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(a.seen, sandbox, at)
}

// Sent notes that a sandbox sent something to the network at a time. Whether that counts is the sandbox's to say.
func (a *Activity) Sent(sandbox string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(a.sent, sandbox, at)
}

// note notes it; mu is held.
func (a *Activity) note(all map[string]time.Time, sandbox string, at time.Time) {
	if all[sandbox].Before(at) {
		all[sandbox] = at
	}
	if time.Since(a.written[sandbox]) < flushEvery {
		return
	}
	select {
	case a.hurry <- struct{}{}:
	default:
	}
}

// Flush writes what was seen. What can't be written is written the next time.
func (a *Activity) Flush(ctx context.Context) error {
	a.mu.Lock()
	seen, sent := a.seen, a.sent
	a.seen, a.sent = map[string]time.Time{}, map[string]time.Time{}
	now := time.Now()
	maps.DeleteFunc(a.written, func(_ string, at time.Time) bool { return now.Sub(at) >= flushEvery })
	for _, all := range []map[string]time.Time{seen, sent} {
		for id := range all {
			a.written[id] = now
		}
	}
	a.mu.Unlock()
	return errors.Join(a.flush(ctx, seen, a.store.Touch, a.Seen), a.flush(ctx, sent, a.store.TouchSent, a.Sent))
}

func (a *Activity) flush(ctx context.Context, all map[string]time.Time, write func(context.Context, map[string]time.Time) error, again func(string, time.Time)) error {
	if len(all) == 0 {
		return nil
	}
	err := write(ctx, all)
	if err != nil {
		for id, at := range all {
			again(id, at)
		}
	}
	return err
}

// Run writes what was seen until ctx ends.
func (a *Activity) Run(ctx context.Context) {
	tick, rest := time.NewTicker(flushEvery), time.NewTicker(hurryEvery)
	defer tick.Stop()
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.hurry:
		}
		if err := a.Flush(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("what was done with sandboxes can't be recorded; it's tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
	}
}
