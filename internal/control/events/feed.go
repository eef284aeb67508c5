package events

import (
	"context"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// pollEvery is the safety net for a wake-up that was lost, for example because another process wrote the event.
	pollEvery = 2 * time.Second
	// restEvery is the least time between two reads of a feed: what happens meanwhile is read at once.
	restEvery = 50 * time.Millisecond
)

// Feed follows a project's events. It's for one goroutine. Close it.
type Feed struct {
	events  *Events
	project string
	sandbox string
	after   int64
	pruned  int64 // if after is below: events in between are gone

	rung <-chan struct{}
	stop func()
	read time.Time // when it last read
}

// Open begins a feed after an event's number; nil: with what happens next. The sandbox may be empty, for all events. Errors:
// quota_exceeded and unavailable (too many feeds), invalid_request (a number that was never given).
func (e *Events) Open(ctx context.Context, project string, after *int64, sandbox string) (*Feed, error) {
	if err := checkSandbox(sandbox); err != nil {
		return nil, err
	}
	if err := e.take(project); err != nil {
		return nil, err
	}
	f := &Feed{events: e, project: project, sandbox: sandbox}
	f.rung, f.stop = e.bell.Listen(wake.Events(project))
	if err := f.begin(ctx, after); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Feed) begin(ctx context.Context, after *int64) error {
	bounds, err := f.events.store.EventBounds(ctx, f.project)
	if err != nil {
		return err
	}
	f.after = bounds.Newest
	if after == nil {
		return nil
	}
	f.after = *after
	if f.after > 0 && f.after < bounds.Pruned {
		f.pruned = bounds.Pruned
	}
	return checkAfter("Last-Event-ID", f.after, bounds)
}

// Close ends the feed.
func (f *Feed) Close() {
	f.stop()
	f.events.give(f.project)
}

// After is the number behind which the feed goes on.
func (f *Feed) After() int64 { return f.after }

// Missed returns the last number of the events that are no longer kept although the feed was to begin before them; 0 if there are none.
func (f *Feed) Missed() int64 { return f.pruned }

// Next returns the next events as soon as there are some; none when the wait has passed or ctx has ended.
func (f *Feed) Next(ctx context.Context, wait time.Duration) ([]record.Event, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		if !f.rest(ctx, over.C) {
			return nil, nil
		}
		rows, err := f.events.store.Events(ctx, f.project, record.EventFilter{After: f.after, Sandbox: f.sandbox, Limit: MaxPage})
		switch {
		case ctx.Err() != nil:
			return nil, nil // what was read is read again by who comes back
		case err != nil || len(rows) > 0:
			f.advance(rows)
			return rows, err
		}
		poll := time.NewTimer(pollEvery)
		select {
		case <-f.rung:
		case <-poll.C:
		case <-over.C:
			poll.Stop()
			return nil, nil
		case <-ctx.Done():
			poll.Stop()
			return nil, nil
		}
		poll.Stop()
	}
}

func (f *Feed) advance(rows []record.Event) {
	if len(rows) > 0 {
		f.after = rows[len(rows)-1].Number
	}
}

// rest keeps a busy project from being read for each event. It reports whether there is still time.
func (f *Feed) rest(ctx context.Context, over <-chan time.Time) bool {
	pause := time.NewTimer(restEvery - time.Since(f.read))
	defer pause.Stop()
	select {
	case <-pause.C:
		f.read = time.Now()
		return ctx.Err() == nil
	case <-over:
		return false
	case <-ctx.Done():
		return false
	}
}
