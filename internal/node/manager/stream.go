package manager

import (
	"context"
	"maps"
	"sync"
	"time"

	space "github.com/space-platform/space"
)

// streamGrace is how long a stream that isn't admitted any more may still deliver what the host has of it, and the host's own last event. The
// stream of a session is admitted as long as its execution is there, and only as long as it's the sandbox's newest.
const streamGrace = 500 * time.Millisecond

// kind is what a stream is. Each has its own limits, so that neither keeps the other out.
type kind string

const (
	kindAttach kind = "attaches"
	kindCall   kind = "calls"
)

// stream is an admitted Attach or Call.
type stream struct {
	kind  kind
	admit func(space.Route, *record) error // what it needs: admit, admitAttach or admitReading; keepStream is enough to go on
	route space.Route
	end   func(cause error) // ends its context with the cause after the grace; later calls change nothing
}

// enter admits a stream, by what it needs: it compares the whole route and lists the stream under one lock. The returned context ends with the reason
// as its cause when the record doesn't admit the route any more. The caller calls leave when the stream is over.
func (t *table) enter(ctx context.Context, k kind, needs func(space.Route, *record) error, route space.Route) (streamCtx context.Context, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := needs(route, find(t.records, t.newest, route)); err != nil {
		return nil, nil, err
	}
	if err := t.room(k, route.Sandbox); err != nil {
		return nil, nil, err
	}
	streamCtx, cancel := context.WithCancelCause(ctx)
	s := &stream{kind: k, admit: needs, route: route, end: endOnce(t.grace, cancel)}
	t.streams[s] = struct{}{}
	t.active[route.Execution] = t.now()
	return streamCtx, func() {
		t.mu.Lock()
		delete(t.streams, s)
		t.active[route.Execution] = t.now()
		t.mu.Unlock()
		cancel(nil)
	}, nil
}

// room refuses a stream over the limits. mu is held.
func (t *table) room(k kind, sandbox string) error {
	all, own := 0, 0
	for s := range t.streams {
		if s.kind == k {
			all++
			if s.route.Sandbox == sandbox {
				own++
			}
		}
	}
	switch {
	case own >= t.share:
		return space.Errorf(space.CodeQuotaExceeded, "the sandbox has %d %s under way already; end one of them", t.share, k)
	case all >= maxStreams:
		return space.Errorf(space.CodeUnavailable, "the node serves %d %s already; try again", maxStreams, k)
	}
	return nil
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
		r := find(t.records, t.newest, s.route)
		err := s.admit(s.route, r)
		if err != nil && keepStream(s.route, r) != nil {
			s.end(err)
		}
	}
}

// passed notes that something passed between a client and an execution.
func (t *table) passed(route space.Route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active[route.Execution] = t.now()
}

// lastActive is when something last passed between clients and each execution with which something did. As long as a client is there, even a silent one, it's now.
// mu is held.
func (t *table) lastActive() map[string]time.Time {
	out := maps.Clone(t.active)
	for s := range t.streams {
		out[s.route.Execution] = t.now()
	}
	return out
}

// forgetActive forgets those of executions that aren't here any more. mu is held.
func (t *table) forgetActive() {
	for id := range t.active {
		if _, ok := t.records[id]; !ok {
			delete(t.active, id)
		}
	}
}
