package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// operation reads an answer that is one which has ended as asked for.
func operation(t *testing.T, a reply, status int, want gen.OperationStatus) gen.Operation {
	t.Helper()
	o := decode[gen.Operation](t, a.want(t, status))
	if o.Status != want {
		t.Fatalf("%s: %+v, error %+v", o.Kind, o, o.Error)
	}
	return o
}

func TestFork(t *testing.T) {
	r := newRig(t)
	r.template(t)
	box := *operation(t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini","metadata":{"task":"1"},"env":{"A":"b"},"lifetime":{"seconds":3600,"on_expiry":"delete"}}`), 201, "succeeded").Sandbox
	session := r.session(t, box.Id)
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Fatal(err)
	}
	r.node.change(func() {
		take := r.node.take
		r.node.take = func(o nodesync.Order) record.SnapshotStatus {
			r.node.sessions[o.Snapshot] = []string{session.Session.Id}
			return take(o)
		}
	})
	o := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork?wait=30s", `{"count":3}`, "Idempotency-Key", "f1"), 201, "succeeded")
	if o.Kind != gen.OperationKindForkSandbox || o.Sandbox.Id != box.Id || o.Sandbox.State != gen.SandboxStateRunning || o.Sandbox.Execution != box.Execution || len(*o.Children) != 3 || o.Snapshot == nil || o.Snapshot.Purpose != gen.SnapshotPurposeFork {
		t.Fatalf("%+v", o)
	}
	for _, id := range *o.Children {
		c := decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+id, nil).want(t, 200))
		if c.State != gen.SandboxStateRunning || c.Execution.Epoch != 1 || c.Parent == nil || *c.Parent != (gen.Parent{Sandbox: box.Id, Snapshot: o.Snapshot.Id}) || c.Template != "mini" {
			t.Errorf("a child is %+v", c)
		}
		if diff := cmp.Diff(box.Metadata, c.Metadata); diff != "" || c.Env == nil || (*c.Env)["A"] != "b" || c.Lifetime == nil || !c.Lifetime.Deadline.Equal(*box.Lifetime.Deadline) {
			t.Errorf("%s, %+v", diff, c)
		}
		page := decode[gen.SessionPage](t, r.do(t, "GET", "/v1/sandboxes/"+id+"/sessions", nil).want(t, 200))
		if len(page.Items) != 1 || page.Items[0].Id == session.Session.Id || page.Items[0].State != gen.SessionStateStarted || *page.Items[0].Execution != c.Execution.Id {
			t.Errorf("its sessions are %+v", page.Items)
		}
		a := decode[gen.Attachment](t, r.do(t, "POST", "/v1/sandboxes/"+id+"/sessions/"+page.Items[0].Id+"/attachments", nil).want(t, 201))
		if _, err := r.sessions.Resolve(t.Context(), a.Token, page.Items[0].Id); err != nil {
			t.Errorf("attach to its copy: %v", err)
		}
	}
	// The source's own goes on where it is.
	target, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id)
	if err != nil || target.Kept || target.Session.Execution != box.Execution.Id {
		t.Errorf("the source's session: %+v, %v", target, err)
	}
	again := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork?wait=30s", `{"count":3}`, "Idempotency-Key", "f1"), 201, "succeeded")
	if again.Id != o.Id || !slices.Equal(*again.Children, *o.Children) {
		t.Errorf("repeated: %+v", again)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", `{"count":2}`, "Idempotency-Key", "f1").code(t, space.CodeIdempotencyMismatch)
	for _, body := range []string{`{"count":0}`, `{"count":101}`, `{"count":1,"metadata":{"":"x"}}`} {
		r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", body).code(t, space.CodeInvalid)
	}
	// A child is forked as its source is, with another name; its parent is the child.
	o = operation(t, r.do(t, "POST", "/v1/sandboxes/"+(*o.Children)[0]+"/fork?wait=30s", `{"metadata":{"idea":"2"}}`), 201, "succeeded")
	c := decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+(*o.Children)[0], nil).want(t, 200))
	if c.Metadata["idea"] != "2" || c.Parent.Sandbox != o.Sandbox.Id {
		t.Errorf("%+v", c)
	}
}

// TestForkOfASuspendedOne makes children of the snapshot that holds it.
func TestForkOfASuspendedOne(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	held := r.verb(t, box.Id, "suspend").Snapshot
	o := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork?wait=30s", `{"count":2}`), 201, "succeeded")
	if o.Sandbox.State != gen.SandboxStateSuspended || o.Snapshot.Id != held.Id || o.Snapshot.Purpose != gen.SnapshotPurposeSuspend {
		t.Errorf("%+v", o)
	}
	r.verb(t, box.Id, "restore")
}

// TestAFailedForkHarmsNothing fails the snapshot, and then one of the children.
func TestAFailedForkHarmsNothing(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	take := r.node.take
	r.node.change(func() {
		r.node.take = func(nodesync.Order) record.SnapshotStatus {
			return record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeCapacity, "the disk is full")}
		}
	})
	o := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork?wait=30s", `{"count":2}`), 201, "failed")
	if o.Error.Code != string(space.CodeCapacity) || o.Sandbox.State != gen.SandboxStateRunning {
		t.Errorf("%+v, %+v", o, o.Error)
	}
	for _, id := range *o.Children { // nothing is in them
		r.state(t, id, gen.SandboxStateDeleted)
	}
	fails := true
	r.node.change(func() {
		r.node.take = take
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			if fails {
				fails = false
				return space.ExecutionFailed, space.Errorf(space.CodeUnavailable, "one of them")
			}
			return space.ExecutionRunning, nil
		}
	})
	o = operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork?wait=30s", `{"count":3}`), 201, "failed")
	if *o.Error.Detail != "one of them" {
		t.Errorf("%+v", o.Error)
	}
	r.node.without(t, func() bool { return len(r.node.executions) == 3 }) // the source and two children
	states := map[gen.SandboxState]int{}
	for _, id := range *o.Children {
		states[decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+id, nil).want(t, 200)).State]++
	}
	if states["running"] != 2 || states["deleting"]+states["deleted"] != 1 {
		t.Errorf("%v", states)
	}
}

// TestAForkLetsGoOfItsSource once its snapshot is ready: while its children are slow to come up, the source does all else, and even goes.
func TestAForkLetsGoOfItsSource(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", `{"count":2}`).want(t, 202))
	r.node.without(t, func() bool { return len(r.node.executions) == 3 }) // the children are ordered, so the snapshot is ready
	r.verb(t, box.Id, "pause")
	r.verb(t, box.Id, "suspend")
	more := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", `{"count":1}`).want(t, 202)) // of what it's suspended into
	r.deleteSandbox(t, box.Id)
	for _, f := range []gen.Operation{o, more} {
		if now := operation(t, r.do(t, "GET", "/v1/operations/"+f.Id, nil), 200, "running"); len(*now.Children) == 0 {
			t.Errorf("%+v", now)
		}
	}
	r.node.without(t, func() bool { return len(r.node.executions) == 3 }) // two forks and no source
	r.node.change(func() {
		for route, x := range r.node.executions {
			x.State = space.ExecutionRunning
			r.node.executions[route] = x
		}
	})
	for _, f := range []gen.Operation{o, more} {
		for _, id := range *operation(t, r.do(t, "GET", "/v1/operations/"+f.Id+"?wait=30s", nil), 200, "succeeded").Children {
			r.state(t, id, gen.SandboxStateRunning)
		}
	}
}

// TestAForkOutlivesItsSource deletes the source before its snapshot is ready: what the fork says is what its children say, whether the snapshot comes or not.
func TestAForkOutlivesItsSource(t *testing.T) {
	for _, end := range []struct {
		snapshot record.SnapshotStatus
		fork     gen.OperationStatus
		child    gen.SandboxState
	}{
		{record.SnapshotStatus{State: record.SnapshotReady, Digest: strings.Repeat("1", 64), At: time.Now(), Bytes: 5 << 20, Driver: "fake", Version: "1"}, "succeeded", gen.SandboxStateRunning},
		{record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeInternal, "its machine was ended")}, "failed", gen.SandboxStateDeleted},
	} {
		r := newRig(t)
		box := r.sandbox(t)
		r.node.change(func() {
			r.node.take = func(nodesync.Order) record.SnapshotStatus { return record.SnapshotStatus{State: record.SnapshotMaking} }
		})
		o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", `{"count":2}`).want(t, 202))
		r.node.without(t, func() bool { return len(r.node.snapshots) == 1 })
		deletion := r.deleteSandbox(t, box.Id)
		operation(t, r.do(t, "GET", "/v1/operations/"+o.Id, nil), 200, "running")
		r.node.change(func() {
			for id := range r.node.snapshots {
				r.node.snapshots[id] = end.snapshot
			}
		})
		o = operation(t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil), 200, end.fork)
		if o.Error != nil && (o.Error.Code != string(space.CodeConflict) || !strings.Contains(*o.Error.Detail, deletion)) {
			t.Errorf("the fork's error doesn't name the delete %s: %+v, %s", deletion, o.Error, *o.Error.Detail)
		}
		for _, id := range *o.Children {
			r.state(t, id, end.child)
		}
	}
}

// TestADeletedChildEndsItsPart deletes what is being made while nothing of it comes up.
func TestADeletedChildEndsItsPart(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.change(func() {
		r.node.take = func(nodesync.Order) record.SnapshotStatus { return record.SnapshotStatus{State: record.SnapshotMaking} }
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/fork", `{"count":2}`).want(t, 202))
	p := r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/pause", nil).code(t, space.CodeConflict)
	if !strings.Contains(*p.Detail, o.Id) {
		t.Errorf("the conflict doesn't name the fork: %s", *p.Detail)
	}
	for _, id := range *o.Children {
		r.deleteSandbox(t, id)
	}
	if o := operation(t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil), 200, "failed"); o.Error.Code != string(space.CodeConflict) {
		t.Errorf("%+v", o.Error)
	}
	r.deleteSandbox(t, box.Id)
	r.node.without(t, func() bool { return len(r.node.snapshots) == 0 })
}

func TestSnapshots(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id + "/snapshots"
	o := operation(t, r.do(t, "POST", path+"?wait=30s", nil, "Idempotency-Key", "s1"), 201, "succeeded")
	if n := o.Snapshot; n == nil || n.Kind != gen.SnapshotKindFull || n.State != gen.SnapshotStateReady || n.Name != nil || n.Digest == nil || *n.SizeBytes != 5<<20 || n.TakenAt == nil || o.Sandbox.RecoveryPoint.Snapshot != n.Id {
		t.Fatalf("%+v", o)
	}
	if again := operation(t, r.do(t, "POST", path+"?wait=30s", nil, "Idempotency-Key", "s1"), 201, "succeeded"); again.Id != o.Id {
		t.Errorf("repeated: %+v", again)
	}
	named := *operation(t, r.do(t, "POST", path+"?wait=30s", `{"kind":"disk","name":"before"}`), 201, "succeeded").Snapshot
	r.do(t, "POST", path, `{"name":"before"}`).code(t, space.CodeConflict)
	for _, body := range []string{`{"name":"Before"}`, `{"name":""}`, `{"kind":"half"}`, `{"name":"snp_x y"}`, `{"name":"` + named.Id + `"}`} {
		r.do(t, "POST", path, body).code(t, space.CodeInvalid)
	}
	list := decode[gen.SnapshotPage](t, r.do(t, "GET", path, nil).want(t, 200)).Items
	if len(list) != 2 || list[0].Id != named.Id || list[1].Id != o.Snapshot.Id {
		t.Errorf("%+v", list)
	}
	if n := decode[gen.Snapshot](t, r.do(t, "GET", "/v1/snapshots/before", nil).want(t, 200)); n.Id != named.Id {
		t.Errorf("%+v", n)
	}
	r.do(t, "GET", "/v1/snapshots/"+space.NewID(space.PrefixSnapshot), nil).code(t, space.CodeNotFound)

	// One with a name outlives its sandbox, the other goes with it.
	r.deleteSandbox(t, box.Id)
	r.node.without(t, func() bool { return len(r.node.snapshots) == 1 })
	page := decode[gen.SnapshotPage](t, r.do(t, "GET", "/v1/snapshots", nil).want(t, 200))
	if len(page.Items) != 1 || page.Items[0].Id != named.Id {
		t.Errorf("%+v", page.Items)
	}
	r.do(t, "DELETE", "/v1/templates/mini", nil).code(t, space.CodeConflict)

	// And a sandbox is made of it.
	for _, body := range []string{`{"snapshot":"before","template":"mini"}`, `{"snapshot":"before","template":""}`, `{}`, `{"snapshot":"before","vcpus":1}`} {
		r.do(t, "POST", "/v1/sandboxes", body).code(t, space.CodeInvalid)
	}
	r.do(t, "POST", "/v1/sandboxes", `{"snapshot":"no-such"}`).code(t, space.CodeNotFound)
	made := *operation(t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"snapshot":"before"}`), 201, "succeeded").Sandbox
	if made.State != gen.SandboxStateRunning || *made.Parent != (gen.Parent{Sandbox: box.Id, Snapshot: named.Id}) || made.Template != "mini" {
		t.Errorf("%+v", made)
	}
	r.do(t, "DELETE", "/v1/snapshots/before", nil).want(t, 204)
	r.do(t, "DELETE", "/v1/snapshots/before", nil).code(t, space.CodeNotFound)
	r.node.without(t, func() bool { return len(r.node.snapshots) == 0 })
}

// TestASnapshotThatIsNeededStays deletes what a suspended sandbox is in, and what one is being made of.
func TestASnapshotThatIsNeededStays(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	held := r.verb(t, box.Id, "suspend").Snapshot
	r.do(t, "DELETE", "/v1/snapshots/"+held.Id, nil).code(t, space.CodeConflict)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	r.do(t, "POST", "/v1/sandboxes", `{"snapshot":"`+held.Id+`"}`).want(t, 202)
	r.deleteSandbox(t, box.Id)
	r.do(t, "DELETE", "/v1/snapshots/"+held.Id, nil).code(t, space.CodeConflict)
}

func TestRollback(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/rollback", nil).code(t, space.CodeConflict)
	first := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", nil), 201, "succeeded").Snapshot
	second := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", `{"name":"second"}`), 201, "succeeded").Snapshot
	back := func(query, want string, epoch int64) {
		t.Helper()
		r.node.took()
		o := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/rollback?wait=30s"+query, nil), 200, "succeeded")
		if o.Kind != gen.OperationKindRollbackSandbox || o.Snapshot.Id != want || o.Sandbox.State != gen.SandboxStateRunning || o.Sandbox.Execution.Epoch != epoch {
			t.Errorf("%+v", o)
		}
		if p := o.Sandbox.RecoveryPoint; p == nil || p.Snapshot != want {
			t.Errorf("back in %s, the recovery point is %+v", want, p)
		}
		r.node.without(t, func() bool { return len(r.node.executions) == 1 })
	}
	back("", second.Id, 2)
	back("&snapshot="+first.Id, first.Id, 3)
	back("", first.Id, 4) // what came after it has been given up
	for id, want := range map[string]bool{first.Id: false, second.Id: true} {
		if n := decode[gen.Snapshot](t, r.do(t, "GET", "/v1/snapshots/"+id, nil).want(t, 200)); (n.GivenUp != nil) != want {
			t.Errorf("%s is given up: %v", id, n.GivenUp)
		}
	}
	again := func(query, key string) reply {
		return r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/rollback?wait=30s"+query, nil, "Idempotency-Key", key)
	}
	once := operation(t, again("", "r1"), 200, "succeeded")
	if twice := operation(t, again("", "r1"), 200, "succeeded"); twice.Id != once.Id || twice.Sandbox.Execution.Epoch != 5 {
		t.Errorf("repeated, it's %s and %+v, and was %s", twice.Id, twice.Sandbox.Execution, once.Id)
	}
	again("&cold=true", "r1").code(t, space.CodeIdempotencyMismatch)
	again("&snapshot="+first.Id, "r1").code(t, space.CodeIdempotencyMismatch)
	r.verb(t, box.Id, "stop")
	r.verb(t, box.Id, "start")
	back("", first.Id, 7)
	held := r.verb(t, box.Id, "suspend").Snapshot
	r.verb(t, box.Id, "restore")
	back("", held.Id, 9)
	back("&snapshot=second&cold=true", second.Id, 10) // and is the past again
	r.verb(t, box.Id, "pause")
	back("", second.Id, 11)
	r.verb(t, box.Id, "stop")
	back("", second.Id, 12)
	r.node.end(box.Id, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "it died"))
	r.state(t, box.Id, gen.SandboxStateLost)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/wake", nil).code(t, space.CodeExecutionLost)
	back("", second.Id, 13)

	other := *operation(t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`), 201, "succeeded").Sandbox
	r.do(t, "POST", "/v1/sandboxes/"+other.Id+"/rollback?snapshot="+first.Id, nil).code(t, space.CodeInvalid)
	r.do(t, "POST", "/v1/sandboxes/"+other.Id+"/rollback?snapshot=", nil).code(t, space.CodeInvalid)
}

// TestAFailedRollbackLeavesItAsItWas fails the load in each state from which it's possible.
func TestAFailedRollbackLeavesItAsItWas(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", nil), 201, "succeeded")
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			return space.ExecutionFailed, space.Errorf(space.CodeSnapshotUnusable, "of another VMM")
		}
	})
	for _, x := range []struct {
		verb  string
		state gen.SandboxState
	}{{"", "running"}, {"pause", "paused"}, {"suspend", "suspended"}} {
		if x.verb != "" {
			r.verb(t, box.Id, x.verb)
		}
		o := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/rollback?wait=30s", nil), 200, "failed")
		if o.Error.Code != string(space.CodeSnapshotUnusable) || o.Sandbox.State != x.state || o.Sandbox.Execution != box.Execution {
			t.Errorf("%+v, %+v", o, o.Error)
		}
		r.node.without(t, func() bool { return len(r.node.executions) == 1 })
	}
}

func TestWake(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	for verb, kind := range map[string]gen.OperationKind{"pause": gen.OperationKindResumeSandbox, "suspend": gen.OperationKindRestoreSandbox, "stop": gen.OperationKindStartSandbox} {
		r.verb(t, box.Id, verb)
		if o := r.verb(t, box.Id, "wake"); o.Kind != kind || o.Sandbox.State != gen.SandboxStateRunning {
			t.Errorf("wake after %s: %+v", verb, o)
		}
	}
	if o := r.verb(t, box.Id, "wake"); o.Sandbox.State != gen.SandboxStateRunning {
		t.Errorf("wake of a running one: %+v", o)
	}
}

// TestTheSameAskIsTheSameOperation asks twice while a machine is being loaded: who asks for the same gets the operation that is under way, others a conflict that
// names it.
func TestTheSameAskIsTheSameOperation(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id
	snapshot := operation(t, r.do(t, "POST", path+"/snapshots?wait=30s", `{"name":"good"}`), 201, "succeeded").Snapshot.Id
	other := operation(t, r.do(t, "POST", path+"/snapshots?wait=30s", `{"kind":"disk"}`), 201, "succeeded").Snapshot.Id
	begin := func(ask string) gen.Operation {
		t.Helper()
		r.node.holdUp(true)
		return decode[gen.Operation](t, r.do(t, "POST", path+ask, nil).want(t, 202))
	}
	refused := func(id, ask string) {
		t.Helper()
		a := r.do(t, "POST", path+ask, nil)
		a.code(t, space.CodeConflict)
		if p := decode[gen.Problem](t, a); p.Detail == nil || !strings.Contains(*p.Detail, id) || p.Operation == nil || *p.Operation != id {
			t.Errorf("%s isn't told of %s: %+v", ask, id, p)
		}
	}
	o := begin("/rollback?snapshot=" + snapshot)
	for _, same := range []string{"/rollback?snapshot=good", "/rollback?snapshot=" + snapshot, "/wake"} {
		if again := decode[gen.Operation](t, r.do(t, "POST", path+same, nil).want(t, 202)); again.Id != o.Id {
			t.Errorf("%s is %s, not %s", same, again.Id, o.Id)
		}
	}
	for _, ask := range []string{"/rollback?snapshot=" + other, "/rollback?snapshot=good&cold=true", "/pause", "/suspend", "/stop", "/fork", "/snapshots"} {
		refused(o.Id, ask)
	}
	r.node.holdUp(false)
	r.state(t, box.Id, gen.SandboxStateRunning)
	r.verb(t, box.Id, "suspend")
	o = begin("/restore?cold=true")
	if again := decode[gen.Operation](t, r.do(t, "POST", path+"/restore?cold=true", nil).want(t, 202)); again.Id != o.Id {
		t.Errorf("a second restore is %s, not %s", again.Id, o.Id)
	}
	refused(o.Id, "/restore")
	r.node.holdUp(false)
}
