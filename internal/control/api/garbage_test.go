package api_test

import (
	"slices"
	"testing"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// TestGarbage suspends a sandbox again and again: what it was suspended into before goes, what is needed stays, and what is told to go is what goes.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	var first, last string
	for i := range 3 {
		last = r.verb(t, box.Id, "suspend").Snapshot.Id
		if i == 0 {
			first = last
		}
		r.verb(t, box.Id, "restore")
	}
	found := decode[gen.Garbage](t, r.do(t, "GET", "/v1/garbage", nil).want(t, 200))
	if len(found.Items) != 2 || found.Items[0].Id != first || found.Bytes != 2*5<<20 {
		t.Fatalf("%+v", found)
	}
	// Something is being made of one of them.
	pending := r.pending(t, first)
	if found = decode[gen.Garbage](t, r.do(t, "GET", "/v1/garbage", nil).want(t, 200)); len(found.Items) != 1 {
		t.Fatalf("%+v", found)
	}
	gone := decode[gen.Garbage](t, r.do(t, "DELETE", "/v1/garbage", nil).want(t, 200))
	if len(gone.Items) != 1 || gone.Items[0].Id != found.Items[0].Id {
		t.Errorf("%+v went, not %+v", gone, found)
	}
	r.node.without(t, func() bool { return len(r.node.snapshots) == 2 })
	r.deleteSandbox(t, pending)
	if gone = decode[gen.Garbage](t, r.do(t, "DELETE", "/v1/garbage", nil).want(t, 200)); len(gone.Items) != 1 || gone.Items[0].Id != first {
		t.Errorf("%+v", gone)
	}
	if s := decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+box.Id, nil).want(t, 200)); s.RecoveryPoint.Snapshot != last {
		t.Errorf("the recovery point is %+v", s.RecoveryPoint)
	}
	r.node.without(t, func() bool { return len(r.node.snapshots) == 1 })

	// The source goes while something is still to be loaded: its snapshot stays until that is.
	pending = r.pending(t, last)
	r.deleteSandbox(t, box.Id)
	if gone = decode[gen.Garbage](t, r.do(t, "DELETE", "/v1/garbage", nil).want(t, 200)); len(gone.Items) != 0 {
		t.Errorf("%+v", gone)
	}
	r.deleteSandbox(t, pending)
	if gone = decode[gen.Garbage](t, r.do(t, "DELETE", "/v1/garbage", nil).want(t, 200)); len(gone.Items) != 1 {
		t.Errorf("%+v", gone)
	}
	r.node.without(t, func() bool { return len(r.node.snapshots) == 0 })
}

// TestWhatCouldntBeMadeIsInNobodysWay fails a snapshot with a name, which then goes from the node: another one may have the name, and is
// found by it.
func TestWhatCouldntBeMadeIsInNobodysWay(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	take := r.node.take
	r.node.change(func() {
		r.node.take = func(nodesync.Order) record.SnapshotStatus {
			return record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeCapacity, "the disk is full")}
		}
	})
	failed := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", `{"name":"v1"}`), 201, "failed").Snapshot.Id
	r.node.change(func() { r.node.take = take })
	r.node.without(t, func() bool { return slices.Contains(r.eventTypes(t, box.Id), "snapshot.deleted") })
	if n := decode[gen.Snapshot](t, r.do(t, "GET", "/v1/snapshots/"+failed, nil).want(t, 200)); n.State != gen.SnapshotStateFailed || n.Error == nil {
		t.Errorf("it's %+v", n)
	}
	made := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", `{"name":"v1"}`), 201, "succeeded").Snapshot.Id
	if n := decode[gen.Snapshot](t, r.do(t, "GET", "/v1/snapshots/v1", nil).want(t, 200)); n.Id != made {
		t.Errorf("the name is %s's, not %s's", n.Id, made)
	}
}

// pending begins a sandbox of a snapshot whose machine doesn't come up.
func (r *rig) pending(t *testing.T, snapshot string) string {
	t.Helper()
	r.node.holdUp(true)
	defer r.node.holdUp(false)
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes", `{"snapshot":"`+snapshot+`"}`).want(t, 202))
	r.node.without(t, func() bool { return r.node.has(o.Sandbox.Id) })
	return o.Sandbox.Id
}

// TestRolling has a sandbox take snapshots of itself: they stand in nobody's way, and go as its lifecycle says.
func TestRolling(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"lifecycle":{"rolling":{"full_every_seconds":60,"budget_mb":12,"keep":[{"every_seconds":0,"for_seconds":86400}]}}}`).want(t, 200)
	due := func(after time.Duration) []record.SnapshotOwner {
		t.Helper()
		rows, err := r.store.ToRoll(t.Context(), time.Now().Add(after), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if rows := due(50 * time.Second); len(rows) != 0 {
		t.Errorf("due before its time: %+v", rows)
	}
	rows := due(time.Minute)
	if len(rows) != 1 || rows[0].Sandbox != box.Id {
		t.Fatalf("due are %+v", rows)
	}
	project := rows[0].Project
	roll := func(want bool) {
		t.Helper()
		if taken, err := r.boxes.Roll(t.Context(), project, box.Id); err != nil || taken != want {
			t.Fatalf("%v, %v", taken, err)
		}
	}
	roll(false)
	for i := range 4 {
		r.anHourLater(t)
		roll(true)
		roll(false)
		r.verb(t, box.Id, "pause")
		r.verb(t, box.Id, "resume")
		r.node.without(t, func() bool { return len(r.node.snapshots) == i+1 })
	}
	ready := func() (out []gen.Snapshot) {
		for _, n := range decode[gen.SnapshotPage](t, r.do(t, "GET", "/v1/sandboxes/"+box.Id+"/snapshots", nil).want(t, 200)).Items {
			if n.State == gen.SnapshotStateReady && n.Purpose == gen.SnapshotPurposeRolling {
				out = append(out, n)
			}
		}
		return out
	}
	r.node.without(t, func() bool { return len(r.node.snapshots) == 4 })
	for len(ready()) < 4 { // they're reported by now
		if t.Context().Err() != nil {
			t.Fatal("they aren't ready")
		}
	}
	gone := decode[gen.Garbage](t, r.do(t, "DELETE", "/v1/garbage", nil).want(t, 200))
	if left := ready(); len(gone.Items) != 2 || len(left) != 2 {
		t.Errorf("%d of 5 MiB each are left of a budget of 12, %d went", len(left), len(gone.Items))
	}
	r.verb(t, box.Id, "stop")
	r.anHourLater(t)
	if _, err := r.boxes.Roll(t.Context(), project, box.Id); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("a stopped sandbox takes a snapshot of itself: %v", err)
	}
}

// anHourLater has all sandboxes and snapshots be an hour older.
func (r *rig) anHourLater(t *testing.T) {
	t.Helper()
	r.sql(t, "UPDATE sandboxes SET created_at = created_at - interval '1 hour'")
	r.sql(t, "UPDATE snapshots SET created_at = created_at - interval '1 hour'")
}
