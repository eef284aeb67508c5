package manager

import (
	"context"
	"sync"
	"time"

	space "github.com/space-platform/space"
)

// streamGrace is how long a stream whose execution is gone may still deliver what the host has of it, and the host's own last event.
const streamGrace = 500 * time.Millisecond

// stream is an admitted Attach.
type stream struct {
	route space.Route
	end   func(cause error) // ends its context with the cause after the grace; later calls change nothing
}

// enter admits an Attach: it compares the whole route and lists the stream under one lock. The returned context ends with the reason
// as its cause when the record doesn't admit the route any more. The caller calls leave when the stream is over.
func (t *table) enter(ctx context.Context, route space.Route) (streamCtx context.Context, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := admit(route, find(t.records, t.newest, route)); err != nil {
		return nil, nil, err
	}
	if len(t.streams) >= maxStreams {
		return nil, nil, space.Errorf(space.CodeUnavailable, "the node serves %d streams already; try again", maxStreams)
	}
	streamCtx, cancel := context.WithCancelCause(ctx)
	s := &stream{route: route, end: endOnce(t.grace, cancel)}
	t.streams[s] = struct{}{}
	return streamCtx, func() {
		t.mu.Lock()
		delete(t.streams, s)
		t.mu.Unlock()
		cancel(nil)
	}, nil
}

// endOnce delays a cancellation; the first cause counts. A timer that fires for a stream that has left does nothing.
func endOnce(grace time.Duration, cancel context.CancelCauseFunc) func(error) {
	var once sync.Once
	return func(cause error) {
		once.Do(func() { time.AfterFunc(grace, func() { cancel(cause) }) })
	}
}

// endStreams ends the streams that the records don't admit any more. mu is held.
func (t *table) endStreams() {
	for s := range t.streams {
		if err := admit(s.route, find(t.records, t.newest, s.route)); err != nil {
			s.end(err)
		}
	}
}
