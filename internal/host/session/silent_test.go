package session

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// TestSilentGuestIsNoLoss: who attaches learns soon that the guest doesn't answer, and the session starts when it does, however late.
func TestSilentGuestIsNoLoss(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g, set := newFakeGuest(t), openSet(t, dir, Limits{})
		silent := make(chan struct{})
		g.wait = func() bool { <-silent; return true }
		set.Use(g.connect())
		id, begun := space.NewID(space.PrefixSession), time.Now()
		w := attach(t, set, id, 0, false)
		<-w.done
		if took := time.Since(begun); space.CodeOf(w.err) != space.CodeGuest || took != startPatience || len(w.events) > 0 {
			t.Fatalf("after %s: %v, events %v", took, w.err, w.events)
		}
		time.Sleep(time.Hour) // of the bubble's time
		close(silent)
		p := g.proc(id)
		p.end(3)
		if e := attach(t, set, id, 0, false).last(t).GetExit(); e.GetCode() != 3 || p.starts != 1 {
			t.Fatalf("got %v after %d starts", e, p.starts)
		}
	})
}

// TestGuestWithoutRoomIsNoLoss: a guest that keeps too many sessions takes another one when it has forgotten some.
func TestGuestWithoutRoomIsNoLoss(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g, set := newFakeGuest(t), openSet(t, dir, Limits{})
		var asked atomic.Int32
		g.wait = func() bool { return asked.Add(1) > 2*maxFailures }
		set.Use(g.connect())
		id := space.NewID(space.PrefixSession)
		g.proc(id).end(0)
		w := attach(t, set, id, 0, false)
		for <-w.done; space.CodeOf(w.err) == space.CodeGuest; <-w.done {
			w = attach(t, set, id, 0, false)
		}
		if w.last(t).GetExit() == nil {
			t.Fatalf("got %v", w.events)
		}
	})
}

// TestSessionsAtOneTime: one more than the limit is refused by name, and is taken when one has ended.
func TestSessionsAtOneTime(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	spec := &sessionv1.Spec{Argv: []string{"true"}}
	first := space.NewID(space.PrefixSession)
	for id := range maxLive {
		name := first
		if id > 0 {
			name = space.NewID(space.PrefixSession)
		}
		if err := set.Start(name, spec); err != nil {
			t.Fatal(err)
		}
	}
	more := space.NewID(space.PrefixSession)
	if err := set.Start(more, spec); space.CodeOf(err) != space.CodeConflict {
		t.Fatalf("session %d: %v, want a conflict", maxLive+1, err)
	}
	p := g.proc(first)
	p.end(0)
	attach(t, set, first, 0, false).last(t)
	if err := set.Start(more, spec); err != nil {
		t.Fatal(err)
	}
}
