package nodesync_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/wake"
)

// world is a control plane and a node whose messages are lost, late and repeated, and whose machines die. The control plane's verbs are the
// real ones, on a store that does what the real one does.
type world struct {
	sandboxes.Store
	verbs *sandboxes.Sandboxes
	boxes []*box
	// order has the executions as they were made.
	order   []space.Route
	vms     map[space.Route]space.ExecutionState
	ended   map[space.Route]bool // removed, or ended by itself: the node never makes it again
	doubted map[string]bool
	stale   nodesync.Report // one that may come late
	rows    []*row          // snapshots, as they were made
	shots   map[string]shot // on the node, by id
	held    map[space.Route]string
}

// box is what the control plane has of a sandbox, and what a test remembers of it.
type box struct {
	record     record.Sandbox
	executions []*execution
	running    *record.Operation
	shown      space.State
	damaged    bool // a disk or snapshot of it vanished by itself
	partOf     string
}

// execution is what is recorded of one, and whether it ever ran.
type execution struct {
	route    space.Route
	diskOf   string
	from     string // snp_…
	replaces string
	heldBy   string
	recorded space.ExecutionState
	everUp   bool
}

func newWorld() *world {
	w := &world{vms: map[space.Route]space.ExecutionState{}, ended: map[space.Route]bool{}, shots: map[string]shot{}, held: map[space.Route]string{}}
	w.verbs = sandboxes.New(w, nil, new(wake.Bell))
	return w
}

func (w *world) create() {
	b := &box{shown: space.StateCreating, running: &record.Operation{ID: space.NewID(space.PrefixOperation), Kind: record.CreateSandbox}}
	b.record = record.Sandbox{Desired: record.DesiredRunning, Shape: record.Shape{VCPUs: 1, MemoryBytes: 1}}
	w.add(b, record.Execution{Route: newRoute()})
	b.record.ID = b.record.Execution.Route.Sandbox
	w.boxes = append(w.boxes, b)
}

func (w *world) add(b *box, e record.Execution) {
	b.executions = append(b.executions, &execution{route: e.Route, diskOf: e.DiskOf, from: e.Snapshot, replaces: e.Replaces, recorded: space.ExecutionPending})
	b.record.Execution = record.Execution{Route: e.Route}
	w.order = append(w.order, e.Route)
}

// current is the execution that a sandbox has.
func (b *box) current() *execution { return b.named(b.record.Execution.Route.Execution) }

func (b *box) named(id string) *execution {
	for _, e := range b.executions {
		if e.route.Execution == id {
			return e
		}
	}
	return nil
}

// read is the sandbox as the store's query has it.
func (w *world) read(b *box) record.Sandbox {
	out := b.record
	current := b.current()
	out.Execution = record.Execution{
		Route: current.route, Observed: current.recorded, DiskOf: current.diskOf, Snapshot: current.from, Replaces: current.replaces, HeldBy: current.heldBy,
	}
	out.Recovery = w.recovery(b)
	out.Deleted = out.Desired == record.DesiredDeleted
	for _, e := range b.executions {
		out.Deleted = out.Deleted && e.recorded == space.ExecutionGone
		if e.route.Execution == current.diskOf {
			out.Execution.Disk = e.recorded
		}
	}
	return out
}

// want is what the store's query wants of one of a sandbox's executions.
func (b *box) want(e *execution) record.Want {
	current := b.current()
	switch {
	case b.record.Desired == record.DesiredDeleted:
		return record.WantGone
	case e == current:
		return record.Want(b.record.Desired)
	case e.route.Execution == current.replaces && current.recorded == space.ExecutionPending:
		return record.WantKept
	case e.route.Execution == current.diskOf && (current.recorded == space.ExecutionPending || current.recorded == space.ExecutionFailed):
		return record.WantDisk
	default:
		return record.WantGone
	}
}

func (w *world) find(r space.Route) (*box, *execution) {
	for _, b := range w.boxes {
		for _, e := range b.executions {
			if e.route == r {
				return b, e
			}
		}
	}
	panic(fmt.Sprintf("no execution %v", r))
}

// DeleteSandbox implements sandboxes.Store.
func (w *world) DeleteSandbox(ctx context.Context, project, id string, decide func(record.Situation) (record.Change, error)) (record.Changed, error) {
	return w.ChangeSandbox(ctx, project, id, "", record.Request{}, decide)
}

// ChangeSandbox implements sandboxes.Store.
func (w *world) ChangeSandbox(_ context.Context, _, id, _ string, _ record.Request, decide func(record.Situation) (record.Change, error)) (record.Changed, error) {
	for _, b := range w.boxes {
		if b.record.ID != id {
			continue
		}
		c, err := decide(record.Situation{Sandbox: w.read(b), Running: b.running, Epoch: uint64(len(b.executions)), Snapshot: w.snapshot, Room: func(record.Usage) (record.Room, error) {
			return record.Room{Facts: record.Facts{CPUs: 1 << 10, MemoryBytes: 1 << 50}}, nil
		}})
		if err != nil || c.Same != "" || c.Done {
			return record.Changed{Operation: c.Same}, err
		}
		if b.running != nil && c.Supersede == nil {
			return record.Changed{}, fmt.Errorf("%s begins while %s runs", c.Kind, b.running.Kind)
		}
		w.change(b, c)
		return record.Changed{Operation: c.Operation}, nil
	}
	return record.Changed{}, space.Errorf(space.CodeNotFound, "no")
}

func (w *world) wanted() record.Wanted {
	var out record.Wanted
	for _, r := range w.order {
		if b, e := w.find(r); e.recorded != space.ExecutionGone {
			out.Executions = append(out.Executions, record.WantedExecution{
				Route: r, DiskOf: e.diskOf, Want: b.want(e), Recorded: e.recorded, From: w.loading(e), HeldBy: e.heldBy, SuspendInto: b.record.SuspendInto, Operation: b.operation(),
			})
		}
	}
	out.Snapshots = w.wantedSnapshots()
	return out
}

func (w *world) report(complete bool) nodesync.Report {
	out := nodesync.Report{Complete: complete}
	for i, r := range w.order {
		if s, there := w.vms[r]; there && (complete || i%2 == 0) {
			out.Executions = append(out.Executions, nodesync.ExecutionReport{Route: r, State: s, HeldBy: w.held[r]})
		}
	}
	for i, r := range w.rows {
		if s, there := w.shots[r.id]; there && (complete || i%2 == 0) {
			out.Snapshots = append(out.Snapshots, record.SnapshotSeen{ID: r.id, Status: s.status()})
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
	for _, s := range p.Snapshots {
		w.seeSnapshot(t, s)
	}
	if heard {
		w.obey(t, p.Orders)
	}
	return p
}

// see records an observation as the store does.
func (w *world) see(t *rapid.T, seen record.ExecutionSeen) {
	b, e := w.find(seen.Route)
	final := e.recorded == space.ExecutionFailed || e.recorded == space.ExecutionLost || e.recorded == space.ExecutionGone ||
		(e.recorded == space.ExecutionStopped || e.recorded == space.ExecutionSuspended) && seen.State != space.ExecutionLost
	if final && seen.State != space.ExecutionGone {
		t.Fatalf("%s became %s: its end is final", e.recorded, seen.State)
	}
	if s := w.vms[seen.Route]; seen.State == space.ExecutionLost && (s == space.ExecutionRunning || s == space.ExecutionPaused || s == space.ExecutionPending) {
		t.Fatalf("a machine that is there was told lost")
	}
	e.recorded = seen.State
	if seen.HeldBy != "" {
		e.heldBy = seen.HeldBy
	}
	current := e == b.current()
	switch {
	case b.running == nil:
	case seen.State == space.ExecutionGone:
		if b.running.Kind == record.DeleteSandbox && w.read(b).Deleted {
			w.end(b)
		}
	case current:
		ended, failure := operations.Outcome(b.running.Kind, seen)
		if ended {
			w.end(b)
		}
		if ended && failure != nil && b.partOf != "" && seen.State == space.ExecutionFailed { // a fork's child that never came to run doesn't stay
			b.record.Desired, b.running = record.DesiredDeleted, &record.Operation{ID: space.NewID(space.PrefixOperation), Kind: record.DeleteSandbox}
		}
	}
	if current && seen.State != space.ExecutionGone {
		w.fallBack(b, e)
	}
}

func (w *world) obey(t *rapid.T, orders []nodesync.Order) {
	for _, o := range orders {
		state, there := w.vms[o.Route]
		switch {
		case o.Kind == nodesync.RemoveExecution:
			delete(w.vms, o.Route)
			w.ended[o.Route] = true
		case o.Kind == nodesync.TakeSnapshot, o.Kind == nodesync.SuspendExecution, o.Kind == nodesync.RemoveSnapshot:
			w.obeySnapshot(t, o)
		case o.Kind == nodesync.PauseExecution && state == space.ExecutionRunning:
			w.vms[o.Route] = space.ExecutionPaused
		case o.Kind == nodesync.ResumeExecution && state == space.ExecutionPaused:
			w.vms[o.Route] = space.ExecutionRunning
		case o.Kind == nodesync.StopExecution && (state == space.ExecutionRunning || state == space.ExecutionPaused || state == space.ExecutionPending):
			w.vms[o.Route], w.ended[o.Route] = space.ExecutionStopped, true
		case o.Kind == nodesync.EnsureExecution && !there && w.ended[o.Route]:
			w.vms[o.Route] = w.gone(o.Route) // and is told so again
		case o.Kind == nodesync.EnsureExecution && !there:
			w.vms[o.Route] = w.boot(t, o)
		}
	}
}

// gone is the end of an execution that the node has forgotten all of but that it ended.
func (w *world) gone(r space.Route) space.ExecutionState {
	if _, e := w.find(r); e.everUp {
		return space.ExecutionLost
	}
	return space.ExecutionFailed
}

// boot is what becomes of an execution at first.
func (w *world) boot(t *rapid.T, o nodesync.Order) space.ExecutionState {
	if o.Snapshot != "" {
		return w.load(t, o)
	}
	if o.DiskOf == "" {
		return space.ExecutionPending
	}
	for r, state := range w.vms {
		if r.Execution != o.DiskOf {
			continue
		}
		if r.Sandbox != o.Route.Sandbox || r.Epoch >= o.Route.Epoch {
			t.Fatalf("%v boots from the disk of %v", o.Route, r)
		}
		if state != space.ExecutionStopped && state != space.ExecutionLost {
			t.Fatalf("an execution boots from the disk of one that is %s", state)
		}
		return space.ExecutionPending
	}
	w.ended[o.Route] = true
	return space.ExecutionFailed
}

// move lets one machine that is in a state go to another; "" is to vanish, disk and all.
func (w *world) move(t *rapid.T, from, to space.ExecutionState) {
	var there []int
	for i, r := range w.order {
		if w.vms[r] == from {
			there = append(there, i)
		}
	}
	if len(there) == 0 {
		return
	}
	r := w.order[rapid.SampledFrom(there).Draw(t, "machine")]
	b, e := w.find(r)
	if to == space.ExecutionRunning {
		e.everUp = true
	} else {
		w.ended[r] = true
	}
	if to == "" {
		b.damaged = b.damaged || from != space.ExecutionFailed
		delete(w.vms, r)
		return
	}
	w.vms[r] = to
}

// check holds what is shown to the vocabulary's table, and what is on the node to what must not be lost.
func (w *world) check(t *rapid.T) {
	for _, b := range w.boxes {
		next := sandboxes.State(w.read(b))
		if next != b.shown && !b.shown.CanBecome(next) {
			t.Fatalf("a sandbox went from %s to %s", b.shown, next)
		}
		b.shown = next
		current := b.current()
		if next == space.StateRunning && !current.everUp {
			t.Fatal("a sandbox is shown running whose machine never ran")
		}
		if b.record.Desired != record.DesiredDeleted && !b.damaged && b.everUp() && !w.hasDisk(b) && !w.isHeld(b) {
			t.Fatalf("the disk of a sandbox that is %s is gone, though nothing happened to it", next)
		}
	}
}

func (b *box) everUp() bool {
	for _, e := range b.executions {
		if e.everUp {
			return true
		}
	}
	return false
}

// hasDisk reports whether a machine of a sandbox that has ever run is on the node, in whatever state: its disk is there.
func (w *world) hasDisk(b *box) bool {
	for _, e := range b.executions {
		if _, there := w.vms[e.route]; there && e.everUp {
			return true
		}
	}
	return false
}

// settle lets everything arrive, and holds the outcome to what is wanted.
func (w *world) settle(t *rapid.T) {
	for range 12 {
		w.exchange(t, w.report(true), true)
		for r, s := range w.vms {
			if s == space.ExecutionPending {
				_, e := w.find(r)
				w.vms[r], e.everUp = space.ExecutionRunning, true
			}
		}
		for id, s := range w.shots {
			if s == making {
				w.shots[id] = ready
			}
		}
		w.check(t)
	}
	for _, b := range w.boxes {
		w.settled(t, b)
	}
	if p := w.exchange(t, w.report(true), true); len(p.Executions) > 0 || len(p.Orders) > 0 {
		t.Fatalf("a settled world has news: %+v", p)
	}
}

func (w *world) settled(t *rapid.T, b *box) {
	if b.running != nil {
		t.Fatalf("a settled sandbox that is %s has %s running", b.shown, b.running.Kind)
	}
	machines, left := 0, 0
	for _, e := range b.executions {
		switch state, there := w.vms[e.route]; {
		case !there:
		case state == space.ExecutionRunning || state == space.ExecutionPaused || state == space.ExecutionPending:
			machines, left = machines+1, left+1
		default:
			left++
		}
	}
	switch b.shown {
	case space.StateSuspended:
		if machines > 0 || !w.isHeld(b) {
			t.Fatalf("suspended, with %d machines, in snapshot %q", machines, b.current().heldBy)
		}
	case space.StateRunning, space.StatePaused:
		if machines != 1 || left != 1 {
			t.Fatalf("running or paused, with %d machines among %d executions", machines, left)
		}
	case space.StateDeleted:
		if left > 0 {
			t.Fatalf("deleted, but %d executions are left", left)
		}
	case space.StateStopped, space.StateLost, space.StateFailed:
		if machines > 0 {
			t.Fatalf("%s, with %d machines", b.shown, machines)
		}
	default:
		t.Fatalf("settled in %s", b.shown)
	}
}

func TestWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		exchanged := false // a late report comes at most once between two fresh ones: calls take turns
		verb := func(do func(context.Context, string, string) (string, error)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(w.boxes) == 0 {
					return
				}
				b := w.boxes[rapid.IntRange(0, len(w.boxes)-1).Draw(t, "sandbox")]
				if _, err := do(context.Background(), "prj", b.record.ID); err != nil && space.CodeOf(err) != space.CodeConflict {
					t.Fatal(err)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) { w.create() },
			"delete": verb(w.verbs.Delete),
			"stop": verb(func(ctx context.Context, project, id string) (string, error) {
				return w.verbs.Stop(ctx, project, id, sandboxes.DefaultGrace)
			}),
			"start":   verb(w.verbs.Start),
			"pause":   verb(w.verbs.Pause),
			"resume":  verb(w.verbs.Resume),
			"suspend": verb(w.verbs.Suspend),
			"wake":    verb(ignoring(w.verbs.Wake, space.CodeExecutionLost)),
			"restore": verb(func(ctx context.Context, project, id string) (string, error) {
				return w.verbs.Restore(ctx, project, id, false)
			}),
			"roll back": verb(ignoring(func(ctx context.Context, project, id string) (string, error) {
				return w.verbs.Rollback(ctx, project, id, "", false, record.Request{})
			}, space.CodeSnapshotUnusable)),
			"snapshot": verb(func(ctx context.Context, project, id string) (string, error) {
				return w.verbs.Take(ctx, project, id, record.SnapshotFull, "", record.Request{})
			}),
			"fork": verb(func(ctx context.Context, project, id string) (string, error) {
				return w.verbs.Fork(ctx, project, id, sandboxes.Fork{Count: 2}, record.Request{})
			}),
			"collect":             func(*rapid.T) { w.collect() },
			"a snapshot is ready": func(t *rapid.T) { w.settleShot(t, making, ready) },
			"a snapshot fails":    func(t *rapid.T) { w.settleShot(t, making, failing) },
			"a snapshot vanishes": func(t *rapid.T) { w.settleShot(t, ready, "") },
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
			"powers off":        func(t *rapid.T) { w.move(t, space.ExecutionRunning, space.ExecutionStopped) },
			"vanishes":          func(t *rapid.T) { w.move(t, space.ExecutionRunning, "") },
			"dies in a pause":   func(t *rapid.T) { w.move(t, space.ExecutionPaused, space.ExecutionLost) },
			"is forgotten":      func(t *rapid.T) { w.move(t, space.ExecutionLost, "") },
			"disk vanishes":     func(t *rapid.T) { w.move(t, space.ExecutionStopped, "") },
			"failure forgotten": func(t *rapid.T) { w.move(t, space.ExecutionFailed, "") },
			"":                  w.check,
		})
		w.settle(t)
	})
}
