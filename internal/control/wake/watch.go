package wake

import (
	"context"
	"time"
)

// pollEvery is the safety net for a call that wasn't heard, for example because another process rang.
const pollEvery = 2 * time.Second

// Watch waits for news under one key, again and again. It's for one goroutine; close it.
type Watch struct {
	bell *Bell
	key  string
	rung <-chan struct{}
	stop func()
}

// Watch returns a watch for a key. It listens from the first Next on, so that who finds at once what it looks for costs nothing.
func (b *Bell) Watch(key string) *Watch { return &Watch{bell: b, key: key} }

// Next returns true when there may be news, and false when ctx is over. The first time it returns at once, since there may have been some
// before it listened.
func (w *Watch) Next(ctx context.Context) bool {
	if w.rung == nil {
		w.rung, w.stop = w.bell.Listen(w.key)
		return ctx.Err() == nil
	}
	poll := time.NewTimer(pollEvery)
	defer poll.Stop()
	select {
	case <-w.rung:
		return true
	case <-poll.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends the watch.
func (w *Watch) Close() {
	if w.stop != nil {
		w.stop()
	}
}
