package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// TestASessionIsFixedWithItsCreation, if the execution is the current one of a sandbox that is to run.
func TestASessionIsFixedWithItsCreation(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	create := func(execution string) (fixed bool) {
		t.Helper()
		n := s.newSession()
		n.Execution = execution
		c, err := s.store.CreateSession(t.Context(), n)
		if err != nil || !c.Fresh {
			t.Fatalf("%+v, %v", c, err)
		}
		got, err := s.store.Session(t.Context(), s.project, n.Sandbox, n.ID)
		if err != nil || (got.Execution != "") != c.Fixed || got.StartedAt.IsZero() == c.Fixed || c.Fixed && got.Execution != execution {
			t.Errorf("%+v, %v, told as %+v", got, err, c)
		}
		return c.Fixed
	}
	current := s.box.Route.Execution
	if !create(current) || create("") || create(space.NewID(space.PrefixExecution)) {
		t.Error("a session is fixed to the current execution, and to no other")
	}
	if _, err := s.pool.Exec(t.Context(), "UPDATE sandboxes SET desired = 'stopped' WHERE id = $1", s.box.Route.Sandbox); err != nil {
		t.Fatal(err)
	}
	if create(current) {
		t.Error("a session was fixed to an execution that is to end")
	}
}

// TestSessionEnds has a node tell how sessions ended: once is what counts, another node's word is none, and what wasn't told when the machine was lost is lost.
func TestSessionEnds(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	start := func() string {
		n := s.newSession()
		s.createSession(t, n)
		if _, err := s.pool.Exec(t.Context(), "UPDATE sessions SET execution = $1, started_at = now() WHERE id = $2", s.box.Route.Execution, n.ID); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	tell := func(node string, e record.SessionEnd) {
		t.Helper()
		if _, err := s.store.Observe(t.Context(), record.Seen{Node: node, Sessions: []record.SessionEnd{e}}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(id string) *record.SessionEnd {
		t.Helper()
		got, err := s.store.Session(t.Context(), s.project, s.box.Route.Sandbox, id)
		if err != nil {
			t.Fatal(err)
		}
		return got.End
	}
	exits, killed, lost := start(), start(), start()
	code, at := int32(3), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	exit := record.SessionEnd{Session: exits, At: at, Code: &code, TimedOut: true, OutputBytes: 1 << 40}
	kill := record.SessionEnd{Session: killed, At: at, Signal: "SIGKILL", Error: "no", Stopped: true}
	tell("another", exit)
	if got := get(exits); got != nil {
		t.Errorf("another node ended it: %+v", got)
	}
	tell(s.name, exit)
	tell(s.name, record.SessionEnd{Session: exits, At: at, Lost: true})
	tell(s.name, kill)
	tell(s.name, record.SessionEnd{Session: space.NewID(space.PrefixSession), At: at}) // of a template's snapshot
	tell(s.name, record.SessionEnd{Session: s.session.ID, At: at, Code: &code})        // which nobody has started
	for id, want := range map[string]*record.SessionEnd{exits: &exit, killed: &kill, lost: nil, s.session.ID: nil} {
		if diff := cmp.Diff(want, get(id)); diff != "" {
			t.Error(diff)
		}
	}
	s.observe(t, s.box.Route, space.ExecutionLost)
	if got := get(lost); got == nil || !got.Lost || got.Error != "it died" || got.At.IsZero() {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(&exit, get(exits)); diff != "" {
		t.Error(diff)
	}
	list, err := s.store.Sessions(t.Context(), s.box.Route.Sandbox, record.Position{}, 10)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	for _, x := range list {
		if diff := cmp.Diff(get(x.ID), x.End); diff != "" {
			t.Error(diff)
		}
	}
}
