package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// shelf is sandboxes with deadlines, in a bubble whose time is the test's.
type shelf struct {
	mu    sync.Mutex // guards what follows
	rows  map[string]record.Expiring
	acted map[string]time.Time
	err   error            // of every read
	fails map[string]error // of an action
	reads int
}

func newShelf() *shelf {
	return &shelf{rows: map[string]record.Expiring{}, acted: map[string]time.Time{}, fails: map[string]error{}}
}

func (s *shelf) set(id string, deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[id] = record.Expiring{ID: id, Lifetime: record.Lifetime{Deadline: deadline, OnExpiry: record.ExpiryDelete}}
}

func (s *shelf) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, id)
}

func order(a, b record.Expiring) int {
	return cmp.Or(a.Lifetime.Deadline.Compare(b.Lifetime.Deadline), cmp.Compare(a.ID, b.ID))
}

func (s *shelf) Expiring(_ context.Context, after record.Expiring, limit int) ([]record.Expiring, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	var out []record.Expiring
	for _, r := range s.rows {
		if order(r, after) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, order)
	return out[:min(limit, len(out))], s.err
}

func (s *shelf) Expire(_ context.Context, e record.Expiring) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fails[e.ID]; err != nil {
		return false, err
	}
	if s.rows[e.ID] != e {
		return false, nil
	}
	s.acted[e.ID] = time.Now()
	delete(s.rows, e.ID)
	return true, nil
}

func (s *shelf) when(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acted[id]
}

// run expires what is on the shelf until the test ends it.
func (s *shelf) run(t *testing.T, bell *wake.Bell) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { ExpireSandboxes(ctx, s, s, bell); close(done) }()
	return func() { cancel(); <-done }
}

func TestActsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newShelf(), time.Now()
		for i := range 300 { // more than a batch, at the same moment and after it
			s.set(fmt.Sprintf("a%03d", i), began.Add(90*time.Minute))
			s.set(fmt.Sprintf("b%03d", i), began.Add(time.Duration(i)*77*time.Millisecond))
		}
		defer s.run(t, new(wake.Bell))()
		time.Sleep(2 * time.Hour) // the bubble's time
		for i := range 300 {
			if late := s.when(fmt.Sprintf("a%03d", i)).Sub(began.Add(90 * time.Minute)); late != 0 {
				t.Errorf("a%03d: %s late", i, late)
			}
			if late := s.when(fmt.Sprintf("b%03d", i)).Sub(began.Add(time.Duration(i) * 77 * time.Millisecond)); late != 0 {
				t.Errorf("b%03d: %s late", i, late)
			}
		}
	})
}

// TestActsOnWhatHasPassed starts after a deadline, as after a restart.
func TestActsOnWhatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.set("a", time.Now().Add(-time.Hour))
		defer s.run(t, new(wake.Bell))()
		synctest.Wait()
		if s.when("a").IsZero() {
			t.Error("nothing was done")
		}
	})
}

// TestDeadlinesMove extends, shortens, adds and removes deadlines while the controller sleeps.
func TestDeadlinesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bell, began := newShelf(), new(wake.Bell), time.Now()
		for _, id := range []string{"extended", "shortened", "removed"} {
			s.set(id, began.Add(10*time.Second))
		}
		defer s.run(t, bell)()
		time.Sleep(5 * time.Second)
		s.set("extended", began.Add(time.Minute))
		s.set("shortened", began.Add(6*time.Second))
		s.remove("removed")
		s.set("added", began.Add(5300*time.Millisecond))
		bell.Ring(wake.Deadlines)
		s.set("unheard", began.Add(5500*time.Millisecond)) // by another process
		time.Sleep(time.Hour)
		for id, want := range map[string]time.Duration{"extended": time.Minute, "shortened": 6 * time.Second, "added": 5300 * time.Millisecond} {
			if got := s.when(id).Sub(began); got != want {
				t.Errorf("%s after %s, want %s", id, got, want)
			}
		}
		if late := s.when("unheard").Sub(began.Add(5500 * time.Millisecond)); late < 0 || late > time.Second {
			t.Errorf("unheard: %s late", late)
		}
		if !s.when("removed").IsZero() {
			t.Error("acted on a deadline that was removed")
		}
	})
}

// TestOneFailureHarmsNobodyElse has an action fail, another be impossible for now, and the database be away for a while.
func TestOneFailureHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := newShelf(), time.Now()
		s.fails["broken"], s.fails["busy"] = errors.New("broken"), space.Errorf(space.CodeConflict, "busy")
		for _, id := range []string{"broken", "busy", "fine"} {
			s.set(id, began.Add(time.Second))
		}
		for i := range 250 {
			s.set(fmt.Sprintf("later%d", i), began.Add(2*time.Second))
		}
		s.set("last", began.Add(10*time.Second))
		defer s.run(t, new(wake.Bell))()
		time.Sleep(5 * time.Second)
		if s.when("fine").Sub(began) != time.Second || s.when("later249").Sub(began) > 3*time.Second {
			t.Errorf("fine after %s, later after %s", s.when("fine").Sub(began), s.when("later249").Sub(began))
		}
		s.mu.Lock()
		delete(s.fails, "busy")
		s.err = errors.New("away")
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		if s.when("busy").IsZero() || s.when("last").IsZero() || !s.when("broken").IsZero() {
			t.Errorf("acted: %v", s.acted)
		}
	})
}

// TestLooksOnceASecond bounds what an idle controller asks of the database.
func TestLooksOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		stop := s.run(t, new(wake.Bell))
		time.Sleep(time.Minute)
		stop()
		if s.reads < 60 || s.reads > 61 {
			t.Errorf("%d reads within a minute", s.reads)
		}
	})
}

// TestSelectDue splits any list at the time: all before it are due, the first behind it is next.
func TestSelectDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		var rows []record.Expiring
		for _, s := range rapid.SliceOf(rapid.Int64Range(990, 1010)).Draw(t, "deadlines") {
			rows = append(rows, record.Expiring{Lifetime: record.Lifetime{Deadline: time.Unix(s, 0)}})
		}
		slices.SortFunc(rows, order)
		due, next := selectDue(rows, now)
		for i, r := range rows {
			if r.Lifetime.Deadline.After(now) == (i < len(due)) {
				t.Fatalf("%d of %v are due at %v", len(due), rows, now)
			}
		}
		if (next.IsZero()) != (len(due) == len(rows)) || !next.IsZero() && !next.Equal(rows[len(due)].Lifetime.Deadline) {
			t.Fatalf("next is %v", next)
		}
	})
}
