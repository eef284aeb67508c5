package events_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/events"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// memory is a store of one project's events.
type memory struct {
	mu     sync.Mutex
	events []record.Event
	pruned int64
	reads  int
	err    error
}

func (m *memory) happen(t record.EventType) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, record.Event{Number: int64(len(m.events) + 1), Type: t})
}

func (m *memory) Events(_ context.Context, _ string, f record.EventFilter) ([]record.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	rows := m.events[max(f.After, m.pruned):]
	return rows[:min(len(rows), f.Limit)], m.err
}

func (m *memory) EventBounds(context.Context, string) (record.EventBounds, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return record.EventBounds{Newest: int64(len(m.events)), Pruned: m.pruned}, nil
}

func numbers(rows []record.Event) []int64 {
	var out []int64
	for _, r := range rows {
		out = append(out, r.Number)
	}
	return out
}

func open(t *testing.T, e *events.Events, after *int64) *events.Feed {
	t.Helper()
	f, err := e.Open(t.Context(), "p", after, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestFeedIsWoken holds that an event is passed on at once when it's rung, and soon when it isn't.
func TestFeedIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, bell := new(memory), new(wake.Bell)
		m.happen(record.EventKeyCreated)
		f := open(t, events.New(m, bell), nil)
		for _, x := range []struct {
			ring bool
			most time.Duration
		}{{true, 100 * time.Millisecond}, {false, 2100 * time.Millisecond}} {
			go func() {
				time.Sleep(time.Second) // the bubble's time
				m.happen(record.EventSandboxCreated)
				if x.ring {
					bell.Ring(wake.Events("p"))
				}
			}()
			began := time.Now()
			rows, err := f.Next(t.Context(), time.Minute)
			if took := time.Since(began) - time.Second; err != nil || len(rows) != 1 || took > x.most {
				t.Errorf("%+v, %v after %s", rows, err, took)
			}
		}
		if f.After() != 3 {
			t.Errorf("the feed goes on after %d", f.After())
		}
	})
}

// TestFeedGivesUp ends a wait by its time, by its context and by the store.
func TestFeedGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memory)
		f := open(t, events.New(m, new(wake.Bell)), nil)
		began := time.Now()
		if rows, err := f.Next(t.Context(), 15*time.Second); len(rows) > 0 || err != nil || time.Since(began) != 15*time.Second {
			t.Errorf("%v, %v after %s", rows, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if rows, err := f.Next(ctx, time.Minute); len(rows) > 0 || err != nil || ctx.Err() == nil {
			t.Errorf("%v, %v", rows, err)
		}
		m.err = errors.New("no database")
		if _, err := f.Next(t.Context(), time.Minute); !errors.Is(err, m.err) {
			t.Error(err)
		}
	})
}

// TestBusyProjectIsReadInBatches has an event every millisecond: the feed doesn't read for each.
func TestBusyProjectIsReadInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, bell := new(memory), new(wake.Bell)
		f := open(t, events.New(m, bell), nil)
		go func() {
			for range 1000 {
				time.Sleep(time.Millisecond)
				m.happen(record.EventSandboxUpdated)
				bell.Ring(wake.Events("p"))
			}
		}()
		var got []int64
		for len(got) < 1000 {
			rows, err := f.Next(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, numbers(rows)...)
		}
		for k, n := range got {
			if n != int64(k+1) {
				t.Fatalf("event %d came as %d", n, k+1)
			}
		}
		if m.reads > 50 {
			t.Errorf("%d reads for a second of events", m.reads)
		}
	})
}

func TestWhereAFeedBegins(t *testing.T) {
	m := new(memory)
	for range 5 {
		m.happen(record.EventKeyCreated)
	}
	m.pruned = 2
	e := events.New(m, new(wake.Bell))
	n := func(n int64) *int64 { return &n }
	for _, x := range []struct {
		after  *int64
		want   []int64
		missed int64
	}{{nil, nil, 0}, {n(0), []int64{3, 4, 5}, 0}, {n(1), []int64{3, 4, 5}, 2}, {n(2), []int64{3, 4, 5}, 0}, {n(4), []int64{5}, 0}, {n(5), nil, 0}} {
		f := open(t, e, x.after)
		rows, err := f.Next(t.Context(), time.Millisecond)
		if got := numbers(rows); err != nil || len(got) != len(x.want) || len(got) > 0 && got[0] != x.want[0] || f.Missed() != x.missed {
			t.Errorf("after %v: %v, missed %d, %v, want %v, missed %d", x.after, got, f.Missed(), err, x.want, x.missed)
		}
	}
	for _, bad := range []int64{6, -1, 1 << 62} {
		if _, err := e.Open(t.Context(), "p", &bad, ""); space.CodeOf(err) != space.CodeInvalid {
			t.Errorf("after %d: %v", bad, err)
		}
	}
	if _, err := e.Open(t.Context(), "p", nil, "exe_x"); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("of what isn't a sandbox: %v", err)
	}
}

// TestFeedsAreCounted opens as many as a project may, and as many as all may.
func TestFeedsAreCounted(t *testing.T) {
	e := events.New(new(memory), new(wake.Bell))
	var feeds []*events.Feed
	fill := func(project string) error {
		for {
			f, err := e.Open(t.Context(), project, nil, "")
			if err != nil {
				return err
			}
			feeds = append(feeds, f)
		}
	}
	for k := range 8 {
		if err := fill(string(rune('a' + k))); k < 8 && space.CodeOf(err) != space.CodeQuotaExceeded || len(feeds) != 32*(k+1) {
			t.Fatalf("%d feeds, %v", len(feeds), err)
		}
	}
	if err := fill("z"); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("%d feeds, %v", len(feeds), err)
	}
	feeds[0].Close()
	if f, err := e.Open(t.Context(), "a", nil, ""); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	for _, f := range feeds[1:] {
		f.Close()
	}
}

func TestPages(t *testing.T) {
	m := new(memory)
	for range 5 {
		m.happen(record.EventKeyCreated)
	}
	e := events.New(m, new(wake.Bell))
	var got []int64
	f := record.EventFilter{Limit: 2}
	for range 3 {
		p, err := e.List(t.Context(), "p", f)
		if err != nil || p.Missed {
			t.Fatalf("%+v, %v", p, err)
		}
		got = append(got, numbers(p.Events)...)
		f.After = p.Next
	}
	last, err := e.List(t.Context(), "p", f)
	if len(got) != 5 || err != nil || len(last.Events) != 0 || last.Next != 5 {
		t.Errorf("got %v, then %+v, %v", got, last, err)
	}
	m.pruned = 3
	if p, err := e.List(t.Context(), "p", record.EventFilter{After: 1, Limit: 10}); err != nil || !p.Missed || p.Events[0].Number != 4 {
		t.Errorf("%+v, %v", p, err)
	}
}
