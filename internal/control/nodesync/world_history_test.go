package nodesync_test

import (
	"context"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
)

// shot is a snapshot on the node.
type shot string

const (
	making  shot = "making"
	ready   shot = "ready"
	failing shot = "failed"
)

func (s shot) status() record.SnapshotStatus {
	out := record.SnapshotStatus{State: record.SnapshotState(s)}
	if s == ready {
		out.Digest = "sha256:1"
	}
	return out
}

// row is what the control plane has of a snapshot.
type row struct {
	id      string
	of      space.Route
	purpose record.SnapshotPurpose
	status  record.SnapshotStatus
	deleted bool
	gone    bool
}

func (w *world) row(id string) *row {
	for _, r := range w.rows {
		if r.id == id {
			return r
		}
	}
	return nil
}

// SandboxEnv implements sandboxes.Store.
func (w *world) SandboxEnv(context.Context, string, string) (map[string]string, error) {
	return nil, nil
}

func (w *world) snapshot(ref string) (record.Snapshot, error) {
	r := w.row(ref)
	if r == nil || r.deleted {
		return record.Snapshot{}, space.Errorf(space.CodeNotFound, "no")
	}
	return record.Snapshot{ID: r.id, Route: r.of, Status: r.status, Kind: record.SnapshotFull}, nil
}

// recovery is the newest snapshot of a sandbox that is ready.
func (w *world) recovery(b *box) (out *record.Recovery) {
	for _, r := range w.rows {
		if r.of.Sandbox == b.record.ID && !r.deleted && r.status.State == record.SnapshotReady {
			out = &record.Recovery{Snapshot: r.id}
		}
	}
	return out
}

// change writes what a verb has decided.
func (w *world) change(b *box, c record.Change) {
	if b.running != nil {
		w.end(b)
	}
	b.running = &record.Operation{ID: c.Operation, Kind: c.Kind, Snapshot: c.Execution.Snapshot + c.Loads}
	if c.Snapshot != nil {
		b.running.Snapshot = c.Snapshot.ID
		w.rows = append(w.rows, &row{id: c.Snapshot.ID, of: c.Snapshot.Route, purpose: c.Snapshot.Purpose})
		if c.Desired == record.DesiredSuspended {
			b.record.SuspendInto = c.Snapshot.ID
		}
	}
	if c.Desired != "" {
		b.record.Desired = c.Desired
	}
	if c.Execution.Route.Execution != "" {
		w.add(b, c.Execution)
	}
	for _, n := range c.Children {
		child := &box{shown: space.StateCreating, running: &record.Operation{ID: n.Operation, Kind: record.CreateSandbox}, partOf: n.PartOf}
		child.record = record.Sandbox{ID: n.Route.Sandbox, Desired: record.DesiredRunning, Shape: n.Shape}
		w.add(child, record.Execution{Route: n.Route, Snapshot: n.Snapshot})
		w.boxes = append(w.boxes, child)
	}
	if c.Desired == record.DesiredDeleted {
		for _, r := range w.rows {
			r.deleted = r.deleted || r.of.Sandbox == b.record.ID && !w.inUse(r.id)
		}
	}
}

// end ends a sandbox's operation, and the fork that it's the last of.
func (w *world) end(b *box) {
	b.running = nil
	for _, other := range w.boxes {
		if other.partOf == b.partOf && other.running != nil && other.running.Kind == record.CreateSandbox {
			return
		}
	}
	for _, source := range w.boxes {
		if b.partOf != "" && source.running != nil && source.running.ID == b.partOf {
			source.running = nil
		}
	}
}

func (b *box) operation() string {
	if b.running == nil {
		return ""
	}
	return b.running.ID
}

// inUse is what the store's view says.
func (w *world) inUse(id string) bool {
	for _, b := range w.boxes {
		if b.running != nil && b.running.Snapshot == id {
			return true
		}
		for _, e := range b.executions {
			if b.record.Desired != record.DesiredDeleted && (e.recorded == space.ExecutionSuspended && e.heldBy == id || e.recorded == space.ExecutionPending && e.from == id) {
				return true
			}
		}
	}
	return false
}

// collect lets go all that nothing needs and nobody would go back to.
func (w *world) collect() {
	for _, r := range w.rows {
		newest := false
		for _, b := range w.boxes {
			recovery := w.recovery(b)
			newest = newest || recovery != nil && recovery.Snapshot == r.id
		}
		r.deleted = r.deleted || r.status.State == record.SnapshotReady && !newest && !w.inUse(r.id)
	}
}

func (w *world) loading(e *execution) record.Loading {
	r := w.row(e.from)
	if r == nil {
		return record.Loading{}
	}
	return record.Loading{Snapshot: r.id, State: r.status.State, Digest: r.status.Digest, Error: r.status.Error}
}

func (w *world) wantedSnapshots() (out []record.WantedSnapshot) {
	for _, r := range w.rows {
		if r.gone {
			continue
		}
		b, e := w.find(r.of)
		n := record.WantedSnapshot{ID: r.id, Route: r.of, Execution: e.recorded, Kind: record.SnapshotFull, Want: record.SnapshotTaken, Recorded: r.status}
		switch {
		case r.deleted || r.status.State == record.SnapshotFailed:
			n.Want = record.SnapshotAway
		case r.purpose == record.PurposeSuspend:
			n.Want = record.SnapshotHeld
		}
		_ = b
		out = append(out, n)
	}
	return out
}

// seeSnapshot records an observation as the store does.
func (w *world) seeSnapshot(t *rapid.T, seen record.SnapshotSeen) {
	r := w.row(seen.ID)
	was := r.status.State
	if (was == record.SnapshotFailed || was == record.SnapshotLost || was == record.SnapshotGone) && seen.Status.State != record.SnapshotGone {
		t.Fatalf("a snapshot that is %s became %s", was, seen.Status.State)
	}
	if w.shots[seen.ID] == ready && seen.Status.State == record.SnapshotLost {
		t.Fatal("a snapshot that is there was told lost")
	}
	r.status, r.gone = seen.Status, r.gone || seen.Status.State == record.SnapshotGone
	for _, b := range w.boxes {
		if b.running == nil || b.running.Snapshot != seen.ID || was == seen.Status.State {
			continue
		}
		kind := b.running.Kind
		ended, failure := operations.SnapshotOutcome(kind, seen.Status)
		if !ended {
			continue
		}
		w.end(b)
		if kind == record.SuspendSandbox && failure != nil {
			b.record.Desired = operations.FallBack(b.current().recorded)
		}
	}
}

// fallBack makes what is desired agree with what has come instead.
func (w *world) fallBack(b *box, e *execution) {
	switch {
	case b.record.Desired == record.DesiredDeleted:
	case e.recorded == space.ExecutionFailed && e.replaces != "":
		before := b.named(e.replaces)
		b.record.Execution, b.record.Desired = record.Execution{Route: before.route}, operations.FallBack(before.recorded)
	case e.recorded == space.ExecutionSuspended:
		b.record.Desired, b.record.SuspendInto = record.DesiredSuspended, e.heldBy
	}
}

// obeySnapshot does what a node does about snapshots: it takes them of machines that are there, and lets none go that something needs.
func (w *world) obeySnapshot(t *rapid.T, o nodesync.Order) {
	state := w.vms[o.Route]
	alive := state == space.ExecutionRunning || state == space.ExecutionPaused
	switch _, there := w.shots[o.Snapshot]; {
	case o.Kind == nodesync.RemoveSnapshot:
		if w.inUse(o.Snapshot) && w.shots[o.Snapshot] == ready {
			t.Fatalf("snapshot %s is to go, and something needs it", o.Snapshot)
		}
		delete(w.shots, o.Snapshot)
	case there && o.Kind == nodesync.TakeSnapshot:
	case o.Kind == nodesync.TakeSnapshot && alive:
		w.shots[o.Snapshot] = making
	case o.Kind == nodesync.TakeSnapshot:
		w.shots[o.Snapshot] = failing
	case o.Kind == nodesync.SuspendExecution && alive && w.shots[o.Snapshot] != failing:
		if rapid.Bool().Draw(t, "the suspend works") {
			w.shots[o.Snapshot], w.vms[o.Route], w.held[o.Route], w.ended[o.Route] = ready, space.ExecutionSuspended, o.Snapshot, true
		} else {
			w.shots[o.Snapshot] = failing
		}
	}
}

// load is what becomes at first of an execution that is loaded.
func (w *world) load(t *rapid.T, o nodesync.Order) space.ExecutionState {
	if o.Digest == "" {
		t.Fatalf("%s is to be loaded, and its digest isn't told", o.Snapshot)
	}
	if w.shots[o.Snapshot] != ready {
		w.ended[o.Route] = true
		return space.ExecutionFailed
	}
	return space.ExecutionPending
}

// isHeld reports whether a snapshot that is there holds a sandbox, or what takes its place until it runs.
func (w *world) isHeld(b *box) bool {
	for _, e := range b.executions {
		if e.heldBy != "" && w.shots[e.heldBy] == ready || e.from != "" && w.shots[e.from] == ready {
			return true
		}
	}
	return false
}

// settleShot lets a snapshot that is in a state go to another; "" is to vanish.
func (w *world) settleShot(t *rapid.T, from, to shot) {
	var there []string
	for _, r := range w.rows {
		if w.shots[r.id] == from {
			there = append(there, r.id)
		}
	}
	if len(there) == 0 {
		return
	}
	id := rapid.SampledFrom(there).Draw(t, "snapshot")
	if to != "" {
		w.shots[id] = to
		return
	}
	delete(w.shots, id)
	for _, b := range w.boxes { // whoever is in it, or was to be made of it, is harmed
		for _, e := range b.executions {
			b.damaged = b.damaged || e.heldBy == id || e.from == id
		}
		b.damaged = b.damaged || b.record.SuspendInto == id
	}
}

// ignoring is a verb that may be refused with a code.
func ignoring(do func(context.Context, string, string) (string, error), code space.Code) func(context.Context, string, string) (string, error) {
	return func(ctx context.Context, project, id string) (string, error) {
		operation, err := do(ctx, project, id)
		if space.CodeOf(err) == code {
			err = nil
		}
		return operation, err
	}
}
