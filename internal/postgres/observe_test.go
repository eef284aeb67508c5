package postgres_test

import (
	"slices"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// TestEndsAreFinal records every state after every other one: running may end, an end may only be followed by gone.
func TestEndsAreFinal(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	states := []space.ExecutionState{space.ExecutionRunning, space.ExecutionFailed, space.ExecutionStopped, space.ExecutionLost, space.ExecutionGone}
	for _, first := range states {
		for _, second := range states {
			n := s.newSandbox()
			must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
			s.observe(t, n.Route, first)
			s.observe(t, n.Route, second)
			want := second
			diskGone := first == space.ExecutionStopped && second == space.ExecutionLost
			if first == space.ExecutionGone || first != space.ExecutionRunning && second != space.ExecutionGone && !diskGone {
				want = first
			}
			got, err := s.store.Sandbox(t.Context(), s.project, n.Route.Sandbox)
			if err != nil || got.Execution.Observed != want {
				t.Errorf("%s, then %s: %s, %v, want %s", first, second, got.Execution.Observed, err, want)
			}
			if ended := first == space.ExecutionFailed || first == space.ExecutionLost; ended && got.Execution.Error == nil {
				t.Errorf("%s, then %s: its error is gone", first, second)
			}
		}
	}
}

// TestObservationsEndOperations follows what each observation does to the create and the delete.
func TestObservationsEndOperations(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	for _, x := range []struct {
		state  space.ExecutionState
		create record.OperationStatus
	}{
		{space.ExecutionRunning, record.OperationSucceeded},
		{space.ExecutionFailed, record.OperationFailed},
		{space.ExecutionLost, record.OperationFailed},
	} {
		n := s.newSandbox()
		must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
		if ended := s.observe(t, n.Route, x.state); !slices.Equal(ended, []string{n.Operation}) {
			t.Errorf("%s ended %v", x.state, ended)
		}
		if o, err := s.store.Operation(t.Context(), s.project, n.Operation); err != nil || o.Status != x.create || (o.Error != nil) != (x.create == record.OperationFailed) {
			t.Errorf("%s: %+v, %v", x.state, o, err)
		}
		if ended := s.observe(t, n.Route, x.state); len(ended) > 0 {
			t.Errorf("%s again ended %v", x.state, ended)
		}
		deletion := must(t)(s.verbs.Delete(t.Context(), s.project, n.Route.Sandbox))
		if ended := s.observe(t, n.Route, space.ExecutionGone); !slices.Equal(ended, []string{deletion}) {
			t.Errorf("gone ended %v", ended)
		}
	}
	s.audit(t)
}

// TestObservationOfNothing has a node report what has been pruned.
func TestObservationOfNothing(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ended, err := s.store.Observe(t.Context(), record.Seen{
		Executions: []record.ExecutionSeen{{Route: s.newSandbox().Route, State: space.ExecutionRunning}},
		Templates:  []record.TemplateSeen{{ID: space.NewID(space.PrefixTemplate), Status: record.TemplateStatus{State: record.TemplateReady}}},
	})
	if err != nil || len(ended) > 0 {
		t.Errorf("%v, %v", ended, err)
	}
}

// TestWanted lists what a node should have: not what is gone, and of a sandbox only its current execution is wanted.
func TestWanted(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	gone, going := s.newSandbox(), s.newSandbox()
	for _, n := range []record.NewSandbox{gone, going} {
		must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
		must(t)(s.verbs.Delete(t.Context(), s.project, n.Route.Sandbox))
	}
	s.observe(t, gone.Route, space.ExecutionGone)
	moved := s.box.Route
	moved.Execution, moved.Epoch = space.NewID(space.PrefixExecution), 2
	if _, err := s.pool.Exec(t.Context(), `WITH e AS (INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid) VALUES ($1, $2, 2, 'node', $3, '') RETURNING id)
		UPDATE sandboxes SET execution = e.id FROM e WHERE sandboxes.id = $2`, moved.Execution, moved.Sandbox, s.name); err != nil {
		t.Fatal(err)
	}
	w, err := s.store.Wanted(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	got := map[space.Route]bool{}
	for _, e := range w.Executions {
		got[e.Route] = e.Want == record.WantRunning
		if e.Template != s.tpl.ID || e.Shape != s.tpl.Shape {
			t.Errorf("%+v", e)
		}
	}
	want := map[space.Route]bool{s.box.Route: false, moved: true, going.Route: false}
	if len(got) != len(want) || got[moved] != true || len(w.Templates) != 1 || w.Templates[0].ID != s.tpl.ID {
		t.Errorf("wanted %v, want %v; templates %v", got, want, w.Templates)
	}
	for r, wanted := range want {
		if is, there := got[r]; !there || is != wanted {
			t.Errorf("%v: wanted %v, there %v", r, is, there)
		}
	}
}

// TestASilentNodeKeepsItsFacts: a manager that was restarted reports before it has heard from its host.
func TestASilentNodeKeepsItsFacts(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	facts := record.Facts{Driver: "qemu", Acceleration: "tcg", CPUs: 2, MemoryBytes: 1 << 30, Version: "1", SandboxMemoryBytes: 1 << 29, OverheadBytes: 16 << 20, ReservedBytes: 1 << 20}
	for _, f := range []record.Facts{facts, {}} {
		if _, err := s.store.Observe(t.Context(), record.Seen{Node: s.name, Facts: &f}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.store.Node(t.Context(), s.name); err != nil || n.Facts != facts {
		t.Errorf("the node is %+v, %v, want %+v", n, err, facts)
	}
}
