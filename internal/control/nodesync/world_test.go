package nodesync_test

import (
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// world is a control plane and a node whose messages are lost, late and repeated, and whose machines die.
type world struct {
	rows    map[space.Route]*row
	order   []space.Route // in which rows were made
	vms     map[space.Route]space.ExecutionState
	ended   map[space.Route]bool // removed, lost or failed: the node never makes it again
	doubted map[string]bool
	stale   nodesync.Report // one that may come late
}

// row is what the control plane has of a sandbox.
type row struct {
	desired  record.Desired
	recorded space.ExecutionState
	shown    space.State
	everUp   bool
}

func newWorld() *world {
	return &world{rows: map[space.Route]*row{}, vms: map[space.Route]space.ExecutionState{}, ended: map[space.Route]bool{}}
}

func (w *world) create() {
	r := newRoute()
	w.rows[r] = &row{desired: record.DesiredRunning, recorded: space.ExecutionPending, shown: space.StateCreating}
	w.order = append(w.order, r)
}

func (w *world) wanted() record.Wanted {
	var out record.Wanted
	for _, r := range w.order {
		if row := w.rows[r]; row.recorded != space.ExecutionGone {
			out.Executions = append(out.Executions, record.WantedExecution{Route: r, Wanted: row.desired == record.DesiredRunning, Recorded: row.recorded})
		}
	}
	return out
}

func (w *world) report(complete bool) nodesync.Report {
	out := nodesync.Report{Complete: complete}
	for _, r := range w.order {
		if s, there := w.vms[r]; there && (complete || r.Execution[4] < 'n') {
			out.Executions = append(out.Executions, nodesync.ExecutionReport{Route: r, State: s})
		}
	}
	return out
}

// exchange lets a report reach the control plane, and its answer the node unless that is lost.
func (w *world) exchange(t *rapid.T, report nodesync.Report, heard bool) nodesync.Plan {
	p := nodesync.Decide(w.wanted(), report, w.doubted, now)
	w.doubted = p.Doubts
	for _, e := range p.Executions {
		w.see(t, e)
	}
	if heard {
		w.obey(p.Orders)
	}
	return p
}

func (w *world) see(t *rapid.T, e record.ExecutionSeen) {
	row := w.rows[e.Route]
	if row.recorded != space.ExecutionPending && row.recorded != space.ExecutionRunning && e.State != space.ExecutionGone {
		t.Fatalf("%s became %s: its end is final", row.recorded, e.State)
	}
	if s := w.vms[e.Route]; e.State == space.ExecutionLost && (s == space.ExecutionRunning || s == space.ExecutionPending) {
		t.Fatalf("a machine that is there was told lost")
	}
	row.recorded = e.State
}

func (w *world) obey(orders []nodesync.Order) {
	for _, o := range orders {
		_, there := w.vms[o.Route]
		switch {
		case o.Kind == nodesync.RemoveExecution:
			delete(w.vms, o.Route)
			w.ended[o.Route] = true
		case !there && !w.ended[o.Route]:
			w.vms[o.Route] = space.ExecutionPending
		}
	}
}

// move lets one machine that is in a state go to another; "" is to vanish.
func (w *world) move(t *rapid.T, from, to space.ExecutionState) {
	var there []space.Route
	for _, r := range w.order {
		if w.vms[r] == from {
			there = append(there, r)
		}
	}
	if len(there) == 0 {
		return
	}
	r := rapid.SampledFrom(there).Draw(t, "machine")
	if to == space.ExecutionRunning {
		w.rows[r].everUp = true
	} else {
		w.ended[r] = true
	}
	if to == "" {
		delete(w.vms, r)
		return
	}
	w.vms[r] = to
}

// check holds what is shown to the vocabulary's table.
func (w *world) check(t *rapid.T) {
	for _, r := range w.order {
		row := w.rows[r]
		next := sandboxes.State(row.desired, row.recorded)
		if next != row.shown && !row.shown.CanBecome(next) {
			t.Fatalf("a sandbox went from %s to %s", row.shown, next)
		}
		row.shown = next
		if next == space.StateRunning && !row.everUp {
			t.Fatal("a sandbox is shown running whose machine never ran")
		}
	}
}

// settle lets everything arrive, and holds the outcome to what is wanted.
func (w *world) settle(t *rapid.T) {
	for range 6 {
		w.exchange(t, w.report(true), true)
		for r, s := range w.vms {
			if s == space.ExecutionPending {
				w.vms[r], w.rows[r].everUp = space.ExecutionRunning, true
			}
		}
		w.check(t)
	}
	for _, r := range w.order {
		row, vm := w.rows[r], w.vms[r]
		switch {
		case row.desired == record.DesiredDeleted && (row.shown != space.StateDeleted || vm != ""):
			t.Fatalf("deleted, but shown %s with a machine that is %q", row.shown, vm)
		case row.shown == space.StateRunning && vm != space.ExecutionRunning:
			t.Fatalf("shown running with a machine that is %q", vm)
		case row.shown == space.StateCreating && !w.ended[r]:
			t.Fatal("still being created")
		case (row.shown == space.StateLost || row.shown == space.StateFailed) && (vm == space.ExecutionRunning || vm == space.ExecutionPending):
			t.Fatalf("shown %s with a machine that is %s", row.shown, vm)
		}
	}
	if p := w.exchange(t, w.report(true), true); len(p.Executions) > 0 {
		t.Fatalf("a settled world has news: %+v", p)
	}
}

func TestWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		exchanged := false // a late report comes at most once between two fresh ones: calls take turns
		t.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) { w.create() },
			"delete": func(t *rapid.T) {
				if len(w.order) > 0 {
					w.rows[rapid.SampledFrom(w.order).Draw(t, "sandbox")].desired = record.DesiredDeleted
				}
			},
			"synchronize": func(t *rapid.T) {
				w.stale = w.report(true)
				w.exchange(t, w.stale, rapid.Bool().Draw(t, "heard"))
				exchanged = true
			},
			"synchronize incompletely": func(t *rapid.T) { w.exchange(t, w.report(false), true) },
			"a late report": func(t *rapid.T) {
				if exchanged {
					w.exchange(t, w.stale, false)
					exchanged = false
				}
			},
			"comes up":          func(t *rapid.T) { w.move(t, space.ExecutionPending, space.ExecutionRunning) },
			"fails":             func(t *rapid.T) { w.move(t, space.ExecutionPending, space.ExecutionFailed) },
			"dies":              func(t *rapid.T) { w.move(t, space.ExecutionRunning, space.ExecutionLost) },
			"vanishes":          func(t *rapid.T) { w.move(t, space.ExecutionRunning, "") },
			"is forgotten":      func(t *rapid.T) { w.move(t, space.ExecutionLost, "") },
			"failure forgotten": func(t *rapid.T) { w.move(t, space.ExecutionFailed, "") },
			"":                  w.check,
		})
		w.settle(t)
	})
}
