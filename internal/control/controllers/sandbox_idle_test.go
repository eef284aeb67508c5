package controllers

import (
	"context"
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
	ended  map[string]time.Time
}

func (r *room) Idling(_ context.Context, now time.Time, limit int) (out []record.Idling, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.active {
		if !at.Add(time.Hour).After(now) && r.ended[id].IsZero() && len(out) < limit {
			out = append(out, record.Idling{ID: id, ActiveAt: at, Idle: record.Idle{After: time.Hour, Action: record.IdleSuspend}})
		}
	}
	return out, nil
}

func (r *room) EndIdle(_ context.Context, i record.Idling) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
