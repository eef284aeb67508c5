package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// room is sandboxes that are idle for an hour, in a bubble whose time is the test's.
type room struct {
	mu     sync.Mutex // guards what follows
	active map[string]time.Time
	unkept map[string]time.Time // activity that isn't written yet
	busy   map[string]bool
	broken map[string]bool
	ended  map[string]time.Time
}

func (r *room) Idling(_ context.Context, now time.Time, after record.Idling, limit int) (out []record.Idling, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := func(a, b record.Idling) int { return cmp.Or(a.ActiveAt.Compare(b.ActiveAt), cmp.Compare(a.ID, b.ID)) }
	for id, at := range r.active {
		i := record.Idling{ID: id, ActiveAt: at, Idle: record.Idle{After: time.Hour, Action: record.IdleSuspend}}
		if !at.Add(time.Hour).After(now) && r.ended[id].IsZero() && before(after, i) < 0 {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, before)
	return out[:min(limit, len(out))], nil
}

func (r *room) EndIdle(_ context.Context, i record.Idling) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken[i.ID] {
		return false, errors.New("broken")
	}
	if r.busy[i.ID] {
		return false, space.Errorf(space.CodeConflict, "busy")
	}
	r.ended[i.ID] = time.Now()
	return true, nil
}

func (r *room) Flush(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.unkept {
		r.active[id] = at
	}
	r.unkept = map[string]time.Time{}
	return nil
}

// TestIdleOnesBehindThoseThatCantBeEnded has more than a batch of sandboxes that can't be ended, for two reasons: those behind them are.
func TestIdleOnesBehindThoseThatCantBeEnded(t *testing.T) {
	long, short := time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour)
	r := &room{active: map[string]time.Time{"idle": short}, busy: map[string]bool{}, broken: map[string]bool{}, ended: map[string]time.Time{}}
	for n := range batch {
		busy, broken := fmt.Sprintf("busy%d", n), fmt.Sprintf("broken%d", n)
		r.active[busy], r.active[broken], r.busy[busy], r.broken[broken] = long, long, true, true
	}
	err := idleRound(t.Context(), r, r, r)
	if err == nil || !strings.Contains(err.Error(), "100 failures") || strings.Count(err.Error(), "broken: ") > 2*maxTold {
		t.Errorf("the round says %v", err)
	}
	if len(r.ended) != 1 || r.ended["idle"].IsZero() {
		t.Errorf("ended: %v", r.ended)
	}
}

// TestIdleness has one sandbox be idle, one be used in time though that isn't written yet, and one be busy with something else.
func TestIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &room{active: map[string]time.Time{"idle": began, "used": began, "busy": began}, unkept: map[string]time.Time{}, busy: map[string]bool{"busy": true}, ended: map[string]time.Time{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { EndIdleSandboxes(ctx, r, r, r); close(done) }()
		time.Sleep(time.Hour - time.Second)
		r.mu.Lock()
		if len(r.ended) > 0 {
			t.Errorf("ended too early: %v", r.ended)
		}
		r.unkept["used"] = time.Now()
		r.mu.Unlock()
		time.Sleep(time.Minute)
		r.mu.Lock()
		if late := r.ended["idle"].Sub(began.Add(time.Hour)); late < 0 || late > idleEvery || len(r.ended) != 1 {
			t.Errorf("ended: %v, the idle one %s late", r.ended, late)
		}
		r.busy["busy"] = false
		r.mu.Unlock()
		time.Sleep(time.Hour)
		r.mu.Lock()
		if len(r.ended) != 3 || r.ended["used"].Sub(began) < 2*time.Hour-time.Second {
			t.Errorf("ended: %v", r.ended)
		}
		r.mu.Unlock()
		cancel()
		<-done
	})
}
