// Package events tells a project what happened in it: as pages, and as a feed that goes on. Whoever makes something happen writes the
// event in the same transaction; the store gives it a number after that has committed. Numbers are seen in their order, so a reader that
// goes on after the last number that it got misses nothing and gets nothing twice.
//
// Events are kept for a time and up to a number. A reader that comes too late is told so.
package events

import (
	"context"
	"sync"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// MaxPage bounds a page, and what a feed reads at once.
	MaxPage = 100
	// maxFeeds bounds the feeds of one project that are open at once.
	maxFeeds = 32
	// maxAllFeeds bounds the feeds of all projects, so that they leave the server room for requests.
	maxAllFeeds = 256
)

// Store reads events.
type Store interface {
	Events(ctx context.Context, project string, f record.EventFilter) ([]record.Event, error)
	EventBounds(ctx context.Context, project string) (record.EventBounds, error)
}

// Events are the events of all projects.
type Events struct {
	store Store
	bell  *wake.Bell

	mu   sync.Mutex // guards open and all
	open map[string]int
	all  int
}

// New returns the events in a store. Whoever learns that something happened in a project rings wake.Events of it.
func New(store Store, bell *wake.Bell) *Events {
	return &Events{store: store, bell: bell, open: map[string]int{}}
}

// Page is some events of a project in the order of their numbers.
type Page struct {
	Events []record.Event
	Next   int64 // after which the next page begins
	More   bool  // there is something on the next page already
	Missed bool  // events between where the page begins and its first one are no longer kept
}

// List returns a page of a project's events. Those that were committed before the call are on it or on the next ones.
func (e *Events) List(ctx context.Context, project string, f record.EventFilter) (Page, error) {
	if err := checkSandbox(f.Sandbox); err != nil {
		return Page{}, err
	}
	bounds, err := e.store.EventBounds(ctx, project)
	if err != nil {
		return Page{}, err
	}
	if err := checkAfter("cursor", f.After, bounds); err != nil {
		return Page{}, err
	}
	limit := min(f.Limit, MaxPage)
	f.Limit = limit + 1
	rows, err := e.store.Events(ctx, project, f)
	out := Page{Events: rows, Next: f.After, More: len(rows) > limit, Missed: f.After > 0 && f.After < bounds.Pruned}
	if out.More {
		out.Events = rows[:limit]
	}
	if n := len(out.Events); n > 0 {
		out.Next = out.Events[n-1].Number
	}
	return out, err
}

// checkAfter refuses a position that this platform never gave out.
func checkAfter(field string, after int64, b record.EventBounds) error {
	if after < 0 || after > b.Newest {
		return space.FieldErrorf(field, "is behind the newest event: begin without it")
	}
	return nil
}

// checkSandbox refuses what can't be a sandbox's id. One that doesn't exist has no events.
func checkSandbox(id string) error {
	if id != "" && space.CheckID(space.PrefixSandbox, id) != nil {
		return space.FieldErrorf("sandbox", "is not a sandbox's id")
	}
	return nil
}

// take counts a feed; give ends it.
func (e *Events) take(project string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.open[project] >= maxFeeds:
		return space.Errorf(space.CodeQuotaExceeded, "the project has %d streams of events open, which is the limit: close one", maxFeeds)
	case e.all >= maxAllFeeds:
		return space.Errorf(space.CodeUnavailable, "%d streams of events are open, which is the limit: read pages, or try again", maxAllFeeds)
	}
	e.open[project]++
	e.all++
	return nil
}

func (e *Events) give(project string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all--
	if e.open[project]--; e.open[project] == 0 {
		delete(e.open, project)
	}
}
