package manager

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// world is everything around one table, without time: what the control plane wants, what the host has, and what is on its way between
// them. Its steps are the things that can happen, in any order.
type world struct {
	t    *rapid.T
	path string
	*table

	routes  map[string]space.Route
	wanted  map[string]bool      // by execution; false after it was ordered to be removed, for good
	stop    map[string]bool      // ordered to be stopped
	turns   map[string]turnOrder // the newest pause, resume or suspend
	shots   map[string]string    // the host's snapshots, with their states
	told    map[string]bool      // the control plane has heard that it's gone
	known   map[string]bool      // the control plane has heard of another state than pending
	host    map[string]space.ExecutionState
	made    map[string]int
	calls   []string // EnsureExecution under way on the host, which outlives its caller
	late    []string // those of earlier lives
	watched []*hostv1.WatchResponse
	answers []modelAnswer // of calls, in their order
}

type modelAnswer struct {
	orders []*controlv1.Order
	rep    report
}

func newWorld(t *rapid.T, path string) *world {
	w := &world{t: t, path: path, routes: map[string]space.Route{}, wanted: map[string]bool{}, stop: map[string]bool{}, turns: map[string]turnOrder{}, shots: map[string]string{}, told: map[string]bool{}, known: map[string]bool{},
		host: map[string]space.ExecutionState{}, made: map[string]int{}}
	w.open()
	return w
}

func (w *world) open() {
	table, err := openTable(w.path, nodeName)
	if err != nil {
		w.t.Fatal(err)
	}
	table.store.db.NoSync = true // the process dies here, never the machine
	w.table = table
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pick(label string, from []string) string {
	if len(from) == 0 {
		w.t.Skip("none")
	}
	slices.Sort(from)
	return rapid.SampledFrom(from).Draw(w.t, label)
}

func (w *world) Create(*rapid.T) {
	if len(w.routes) >= 4 {
		w.t.Skip("enough")
	}
	r := newRoute()
	w.routes[r.Execution], w.wanted[r.Execution] = r, true
}

func (w *world) Delete(*rapid.T) {
	var ids []string
	for id, wanted := range w.wanted {
		if wanted {
			ids = append(ids, id)
		}
	}
	w.wanted[w.pick("delete", ids)] = false
}

func (w *world) Stop(*rapid.T) {
	w.stop[w.pick("stop", slices.Collect(maps.Keys(w.routes)))] = true
}

// Turn has the control plane want something else of an execution.
func (w *world) Turn(*rapid.T) {
	id := w.pick("turn", slices.Collect(maps.Keys(w.routes)))
	w.turns[id] = rapid.SampledFrom([]turnOrder{
		{wanted: wantPaused, operation: newOperation()}, {wanted: wantRunning, operation: newOperation()}, {wanted: wantSuspended, snapshot: newSnapshot()},
	}).Draw(w.t, "to")
}

// turnOrders are the orders about an execution that isn't what it's to be. What was refused isn't ordered again.
func (w *world) turnOrders(rep *controlv1.SynchronizeRequest, there *controlv1.ExecutionReport, r space.Route) []*controlv1.Order {
	turn, ok := w.turns[r.Execution]
	if !ok || !live(space.ExecutionState(there.GetState())) || string(turn.wanted) == there.GetState() || there.GetRefused() == turn.operation && turn.operation != "" {
		return nil
	}
	for _, s := range rep.GetSnapshots() {
		if s.GetSnapshot() == turn.snapshot {
			return nil
		}
	}
	switch turn.wanted {
	case wantPaused:
		return []*controlv1.Order{pauseOrder(r, turn.operation)}
	case wantRunning:
		return []*controlv1.Order{resumeOrder(r, turn.operation)}
	default:
		return []*controlv1.Order{suspendOrder(r, turn.snapshot)}
	}
}

// Call is a report that arrives, and an answer that sets out. At most two are under way.
func (w *world) Call(*rapid.T) {
	if len(w.answers) >= 2 {
		w.t.Skip("two calls are under way")
	}
	rep := w.report()
	a := modelAnswer{rep: rep}
	for id, r := range w.routes {
		there := reported(rep.msg, id)
		w.known[id] = w.known[id] || there != nil && there.GetState() != string(space.ExecutionPending)
		switch {
		case w.wanted[id] && there == nil && rep.msg.GetComplete() && !w.known[id]:
			a.orders = append(a.orders, ensureOrder(r))
		case !w.wanted[id] && there != nil:
			a.orders = append(a.orders, removeOrder(r))
		case w.wanted[id] && w.stop[id] && there != nil:
			a.orders = append(a.orders, stopOrder(r))
		case !w.wanted[id] && there == nil && rep.msg.GetComplete():
			w.told[id] = true
		case w.wanted[id]:
			a.orders = append(a.orders, w.turnOrders(rep.msg, there, r)...)
		}
	}
	w.answers = append(w.answers, a)
}

func (w *world) Answer(*rapid.T) {
	if len(w.answers) == 0 {
		w.t.Skip("none")
	}
	a := w.answers[0]
	w.answers = w.answers[1:]
	_, err := w.obey(a.orders, a.rep)
	w.must(err)
}

func (w *world) LoseAnswer(*rapid.T) {
	if len(w.answers) == 0 {
		w.t.Skip("none")
	}
	w.answers = w.answers[1:]
}

// Work does what a record lacks, as its worker would. A removal has the host end an EnsureExecution that is still under way; at worst one
// that hasn't made anything yet slips through, and the host shows its machine after the removal.
func (w *world) Work(*rapid.T) {
	var ids []string
	for id := range w.routes {
		if act, _, _ := w.lacks(id); act != actNone {
			ids = append(ids, id)
		}
	}
	id := w.pick("work", ids)
	if act, _, _ := w.lacks(id); act == actEnsure {
		w.calls = append(w.calls, id)
		return
	}
	if act, _, _ := w.lacks(id); act == actStop {
		w.halt(id)
		return
	}
	if act, r, _ := w.lacks(id); act != actRemove {
		w.turn(act, r, rapid.Bool().Draw(w.t, "it works"))
		return
	}
	if w.made[id] > 0 || rapid.Bool().Draw(w.t, "calls end") {
		w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return c == id })
	}
	delete(w.host, id)
	if rapid.Bool().Draw(w.t, "the answer arrives") {
		w.must(w.removed([]string{id}))
	}
}

// turn has the host pause, resume or suspend, or refuse to.
func (w *world) turn(act action, r record, works bool) {
	id := r.Route.Execution
	switch {
	case !live(w.host[id]):
		w.must(w.refusedTurn(r, space.Errorf(space.CodeExecutionLost, "there is no machine")))
	case act == actSuspend && works:
		w.shots[r.Snapshot], w.host[id] = "ready", space.ExecutionSuspended
	case act == actSuspend:
		w.shots[r.Snapshot] = "failed"
	case !works:
		w.must(w.refusedTurn(r, space.Errorf(space.CodeGuest, "it can't")))
	case act == actPause:
		w.host[id] = space.ExecutionPaused
	default:
		w.host[id] = space.ExecutionRunning
	}
}

func (w *world) halt(id string) {
	if live(w.host[id]) {
		w.host[id] = space.ExecutionStopped
	}
}

// Ensure has the host finish a call, whoever still waits for it.
func (w *world) Ensure(*rapid.T) {
	id := w.pick("ensure", slices.Concat(w.calls, w.late))
	w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return c == id })
	w.late = slices.DeleteFunc(w.late, func(c string) bool { return c == id })
	if w.host[id] == "" {
		w.host[id] = space.ExecutionRunning
		w.made[id]++
	}
	if w.made[id] > 1 {
		w.t.Fatalf("%s was made twice", id)
	}
}

func (w *world) Die(*rapid.T) {
	var ids []string
	for id, s := range w.host {
		if live(s) {
			ids = append(ids, id)
		}
	}
	w.host[w.pick("die", ids)] = space.ExecutionLost
}

// Forget has the host lose an execution that it has shown; it was restarted without its records, so its calls are over too.
func (w *world) Forget(*rapid.T) {
	var ids []string
	for id := range w.host {
		if _, r, _ := w.lacks(id); live(r.State) || r.State == space.ExecutionStopped || r.State == space.ExecutionSuspended {
			ids = append(ids, id)
		}
	}
	delete(w.host, w.pick("forget", ids))
	w.calls, w.late = nil, nil
}

func (w *world) Show(*rapid.T) {
	w.late = nil // the host refuses them from when the manager listens
	m := &hostv1.WatchResponse{}
	for id, s := range w.host {
		m.Executions = append(m.Executions, &controlv1.ExecutionReport{Route: peer.RouteMessage(w.routes[id]), State: string(s)})
	}
	for id, s := range w.shots {
		m.Snapshots = append(m.Snapshots, &controlv1.SnapshotReport{Snapshot: id, State: s})
	}
	w.watched = append(w.watched, m)
}

func (w *world) Watch(*rapid.T) {
	if len(w.watched) == 0 {
		w.t.Skip("none")
	}
	m := w.watched[0]
	w.watched = w.watched[1:]
	w.must(w.hear(m))
}

// Crash kills the manager: what was under way to it is lost, what the host is at goes on.
func (w *world) Crash(*rapid.T) {
	w.must(w.store.close())
	w.watched, w.answers = nil, nil
	w.late, w.calls = append(w.late, w.calls...), nil
	w.open()
}

// Check holds at every moment.
func (w *world) Check(*rapid.T) {
	rep := w.report().msg
	for id := range w.host {
		if reported(rep, id) == nil && rep.GetComplete() && !w.told[id] && w.wanted[id] {
			w.t.Fatalf("the host has %s, and the report leaves it out", id)
		}
	}
}

// settle lets everything that can happen by itself happen, until nothing is left.
func (w *world) settle() {
	for range 20 {
		for len(w.calls) > 0 {
			w.Ensure(w.t)
		}
		w.Show(nil)
		for len(w.watched) > 0 {
			w.Watch(nil)
		}
		for id := range w.routes {
			switch act, _, _ := w.lacks(id); act {
			case actEnsure:
				w.calls = append(w.calls, id)
			case actStop:
				w.halt(id)
			case actPause, actResume, actSuspend:
				_, r, _ := w.lacks(id)
				w.turn(act, r, true)
			case actRemove:
				w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return c == id })
				delete(w.host, id)
				w.must(w.removed([]string{id}))
			}
		}
		if len(w.answers) == 0 {
			w.Call(nil)
		}
		w.Answer(nil)
	}
}

// turned tells whether an execution is what it's to be, or that was refused.
func (w *world) turned(id string, r record) bool {
	turn, ok := w.turns[id]
	return !ok || string(turn.wanted) == string(r.State) || turn.operation != "" && r.Refused == turn.operation || w.shots[turn.snapshot] == "failed"
}

// TestWhateverHappens has anything happen in any order, crashes included, and then lets the node come to rest.
func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := newWorld(rt, filepath.Join(dir, "records"+string(rune('a'+n%26))+space.NewID("db")))
		defer func() { w.store.close() }()
		rt.Repeat(rapid.StateMachineActions(w))
		w.settle()
		for id, wanted := range w.wanted {
			_, r, _ := w.lacks(id)
			_, kept := w.table.records[id]
			switch {
			case !wanted && (kept || w.host[id] != "" || !w.told[id]):
				rt.Fatalf("%s was deleted; record kept: %v, host: %q, the control plane knows: %v", id, kept, w.host[id], w.told[id])
			case wanted && !kept:
				rt.Fatalf("%s is wanted and has no record", id)
			case wanted && r.State == space.ExecutionRunning && w.host[id] != space.ExecutionRunning:
				rt.Fatalf("%s is said to run; host: %q", id, w.host[id])
			case wanted && w.stop[id] && live(r.State):
				rt.Fatalf("%s was to be stopped", id)
			case wanted && live(r.State) && w.host[id] != r.State:
				rt.Fatalf("%s is said to be %s; host: %q", id, r.State, w.host[id])
			case wanted && live(r.State) && !w.turned(id, r):
				rt.Fatalf("%s was to be %s; it's %+v", id, w.turns[id].wanted, r)
			case wanted && r.State == space.ExecutionStopped && w.host[id] != space.ExecutionStopped:
				rt.Fatalf("%s is said to be stopped; host: %q", id, w.host[id])
			case wanted && r.State == space.ExecutionPending:
				rt.Fatalf("%s never came to run", id)
			}
		}
	})
}
