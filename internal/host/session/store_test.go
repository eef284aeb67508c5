package session

import (
	"bytes"
	"log/slog"
	"testing"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func openStore(t *testing.T, dir string, limits Limits) *Store {
	t.Helper()
	s, err := OpenStore(dir, limits, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// run has an execution run sessions that each print something and end, and returns their ids in the order of their ends.
func run(t *testing.T, store *Store, execution string, outputs ...string) []string {
	t.Helper()
	g := newFakeGuest(t)
	set, err := store.Set(execution)
	if err != nil {
		t.Fatal(err)
	}
	set.Use(g.connect())
	var ids []string
	for _, o := range outputs {
		id := space.NewID(space.PrefixSession)
		p := g.proc(id)
		w := attach(t, set, id, 0, false)
		p.print([]byte(o))
		p.end(3)
		if w.last(t).GetExit() == nil {
			t.Fatal("no exit")
		}
		if err := set.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// kept reads what a store has of a session; "gap" if its output is gone, "none" if nothing is known of it.
func kept(t *testing.T, s *Store, id string) string {
	t.Helper()
	out := ""
	err := s.Attach(t.Context(), Request{Session: id}, func(e *sessionv1.AttachResponse) error {
		if e.GetGap() != nil {
			out += "gap"
		}
		out += string(e.GetOutput().GetData())
		return nil
	})
	switch {
	case space.CodeOf(err) == space.CodeSessionLost:
		return "none"
	case err != nil:
		t.Fatal(err)
	}
	return out
}

// TestStoreKeepsWhatFits drops the output of what ended first, of whichever execution, and counts it all anew in another life.
func TestStoreKeepsWhatFits(t *testing.T) {
	dir := t.TempDir()
	limits := Limits{KeptBytes: 2500}
	text := string(text(1000))
	store := openStore(t, dir, limits)
	first := run(t, store, "exe_a", text, text)
	set, _ := store.Set("exe_a")
	set.End(space.Errorf(space.CodeExecutionLost, "gone"))
	second := run(t, store, "exe_b", text)
	for range 2 {
		if a, b, c := kept(t, store, first[0]), kept(t, store, first[1]), kept(t, store, second[0]); a != "gap" || b != text || c != text {
			t.Errorf("kept are %.20q, %.20q, %.20q", a, b, c)
		}
		store.Close()
		store = openStore(t, dir, limits)
		if _, err := store.Set("exe_b"); err != nil {
			t.Fatal(err)
		}
	}
	run(t, store, "exe_c", text)
	if got := kept(t, store, first[1]); got != "gap" {
		t.Errorf("after another one: %.20q", got)
	}
}

// TestStoreBoundsSessions removes those sessions of executions that are over which ended first.
func TestStoreBoundsSessions(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir, Limits{})
	store.most = 2
	first := run(t, store, "exe_a", "1", "2", "3")
	if got := kept(t, store, first[0]); got != "1" {
		t.Errorf("of an execution that isn't over: %q", got)
	}
	set, _ := store.Set("exe_a")
	set.End(space.Errorf(space.CodeConflict, "stopped"))
	for range 2 {
		if a, b, c := kept(t, store, first[0]), kept(t, store, first[1]), kept(t, store, first[2]); a != "none" || b != "2" || c != "3" {
			t.Errorf("kept are %q, %q, %q", a, b, c)
		}
		store.Close()
		store = openStore(t, dir, Limits{})
	}
}

// TestStopTellsNoEndThatItDoesntKnow has sessions run while their machine is stopped without a word of its guest.
func TestStopTellsNoEndThatItDoesntKnow(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir, Limits{})
	g := newFakeGuest(t)
	set, err := store.Set("exe_a")
	if err != nil {
		t.Fatal(err)
	}
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	w := attach(t, set, id, 0, false)
	p.print([]byte("so far"))
	w.awaitData(t, 6)
	stopped := space.Errorf(space.CodeConflict, "stopped")
	set.Refuse(stopped)
	if err := set.Start(space.NewID(space.PrefixSession), &sessionv1.Spec{Argv: []string{"x"}}); err != stopped {
		t.Errorf("a session that begins meanwhile: %v", err)
	}
	set.End(stopped)
	if e := w.last(t).GetLost().GetError(); e.GetCode() != string(space.CodeSessionLost) {
		t.Errorf("it ended with %v", w.last(t))
	}
	store.Close()
	store = openStore(t, dir, Limits{})
	if got := kept(t, store, id); got != "so far" {
		t.Errorf("kept is %q", got)
	}
	if l := store.List(); len(l) != 1 || l[0].Exit != nil || space.CodeOf(l[0].Lost) != space.CodeSessionLost || l[0].Output != 6 {
		t.Errorf("the list is %+v", l)
	}
}

// TestSlowReaderHoldsUpNoStop has a client take nothing while its session's process ends and its machine is stopped. All that the guest had is
// kept, and how it ended.
func TestSlowReaderHoldsUpNoStop(t *testing.T) {
	const ringBytes = 160_000
	store := openStore(t, t.TempDir(), Limits{RingBytes: ringBytes})
	g := newFakeGuest(t)
	set, err := store.Set("exe_a")
	if err != nil {
		t.Fatal(err)
	}
	set.Use(g.connect())
	id, want := space.NewID(space.PrefixSession), text(ringBytes+drainBytes/2)
	p := g.proc(id)
	slow, ended := make(chan struct{}), make(chan error, 1)
	w := &watcher{changed: make(chan struct{})}
	go func() {
		spec := &sessionv1.Spec{Argv: []string{"true"}}
		ended <- set.Attach(t.Context(), Request{Session: id, Spec: spec}, func(e *sessionv1.AttachResponse) error {
			<-slow
			return w.take(e)
		})
	}()
	p.print(want)
	p.end(3)
	p.await(t, "a full ring", func() bool { return p.acked > ringBytes/2 })
	if err := set.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	set.End(space.Errorf(space.CodeConflict, "stopped"))
	close(slow)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.data, want) {
		t.Errorf("the client got %d bytes of %d", len(w.data), len(want))
	}
	if e := w.events[len(w.events)-1].GetExit(); e.GetCode() != 3 || e.GetOffset() != uint64(len(want)) {
		t.Errorf("it ended with %v", w.events[len(w.events)-1])
	}
}
