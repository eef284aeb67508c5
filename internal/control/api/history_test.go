package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

func TestPauseAndResume(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	pause := r.verb(t, box.Id, "pause")
	if pause.Kind != gen.OperationKindPauseSandbox || pause.Sandbox.State != gen.SandboxStatePaused || pause.Sandbox.Execution != box.Execution {
		t.Errorf("pause: %+v", pause)
	}
	if again := r.verb(t, box.Id, "pause"); again.Id != pause.Id {
		t.Errorf("pause of a paused one is operation %s, want %s", again.Id, pause.Id)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/restore", nil).code(t, space.CodeConflict)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/start", nil).code(t, space.CodeConflict)
	resume := r.verb(t, box.Id, "resume")
	if resume.Sandbox.State != gen.SandboxStateRunning || resume.Sandbox.Execution != box.Execution {
		t.Errorf("resume: %+v", resume)
	}
	if again := r.verb(t, box.Id, "resume"); again.Id != resume.Id {
		t.Errorf("resume of a running one is operation %s, want %s", again.Id, resume.Id)
	}
	types := r.eventTypes(t, box.Id)
	if want := []string{"sandbox.paused", "sandbox.resumed"}; !slices.Equal(types[len(types)-2:], want) {
		t.Errorf("events %v", types)
	}
	r.verb(t, box.Id, "pause")
	if stop := r.verb(t, box.Id, "stop"); stop.Sandbox.State != gen.SandboxStateStopped {
		t.Errorf("stop of a paused one: %+v", stop)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/pause", nil).code(t, space.CodeConflict)
}

// TestARefusedPauseChangesNothing has the node refuse: the operation fails with its reason, and the sandbox is what it was.
func TestARefusedPauseChangesNothing(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	refusal := space.Errorf(space.CodeUnavailable, "the machine doesn't listen")
	r.node.change(func() { r.node.pause = func(nodesync.Order) *space.Error { return refusal } })
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/pause?wait=30s", nil).want(t, 200))
	if o.Status != gen.OperationStatusFailed || o.Error.Detail == nil || *o.Error.Detail != refusal.Message || o.Sandbox.State != gen.SandboxStateRunning {
		t.Fatalf("%+v, %+v", o, o.Error)
	}
	// The refusal that the node still tells isn't one of the next pause.
	r.node.change(func() { r.node.pause = func(nodesync.Order) *space.Error { return nil } })
	r.verb(t, box.Id, "pause")
	r.node.change(func() { r.node.pause = func(nodesync.Order) *space.Error { return refusal } })
	o = decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/resume?wait=30s", nil).want(t, 200))
	if o.Status != gen.OperationStatusFailed || o.Sandbox.State != gen.SandboxStatePaused {
		t.Fatalf("%+v", o)
	}
}

func TestSuspendAndRestore(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id)
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Fatal(err)
	}
	suspend := r.verb(t, box.Id, "suspend")
	s := *suspend.Sandbox
	if suspend.Kind != gen.OperationKindSuspendSandbox || s.State != gen.SandboxStateSuspended || s.Execution != box.Execution || s.RecoveryPoint == nil || s.RecoveryPoint.Kind != gen.RecoveryPointKindFull {
		t.Fatalf("suspend: %+v", suspend)
	}
	if again := r.verb(t, box.Id, "suspend"); again.Id != suspend.Id {
		t.Errorf("suspend of a suspended one is operation %s, want %s", again.Id, suspend.Id)
	}
	for _, verb := range []string{"pause", "resume", "stop", "start"} {
		r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/"+verb, nil).code(t, space.CodeConflict)
	}
	r.node.change(func() { r.node.sessions[s.RecoveryPoint.Snapshot] = []string{session.Session.Id} })
	r.node.took()
	restore := r.verb(t, box.Id, "restore")
	now := *restore.Sandbox
	if now.State != gen.SandboxStateRunning || now.Execution.Epoch != 2 || now.RecoveryPoint == nil || *now.RecoveryPoint != *s.RecoveryPoint {
		t.Errorf("restore: %+v", restore)
	}
	for _, o := range r.node.took() {
		if o.Kind == nodesync.EnsureExecution && (o.Snapshot != s.RecoveryPoint.Snapshot || o.Digest != digestOf(o.Snapshot) || o.DiskOf != "" || o.Cold) {
			t.Errorf("loaded by %+v", o)
		}
	}
	// The session goes on in the new execution.
	target, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id)
	if err != nil || target.Kept || target.Execution.Route.Execution != now.Execution.Id || target.Session.Execution != now.Execution.Id {
		t.Errorf("the session: %+v, %v", target, err)
	}
	types := r.eventTypes(t, box.Id)
	if !slices.Contains(types, "sandbox.suspended") || !slices.Contains(types, "snapshot.ready") || types[len(types)-1] != "sandbox.restored" {
		t.Errorf("events %v", types)
	}
	for _, wrong := range []string{"restore?cold=maybe", "rollback?snapshot=%00", "rollback?snapshot=snp_x"} {
		r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/"+wrong, nil).code(t, space.CodeInvalid)
	}
	r.verb(t, box.Id, "suspend")
	r.deleteSandbox(t, box.Id)
	r.node.without(t, func() bool { return len(r.node.snapshots) == 0 && len(r.node.executions) == 0 })
}

// TestAFailedSuspendChangesNothing fails the snapshot of a sandbox that runs, and of one that is paused.
func TestAFailedSuspendChangesNothing(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.change(func() {
		r.node.take = func(nodesync.Order) record.SnapshotStatus {
			return record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeCapacity, "the disk is full")}
		}
	})
	for _, state := range []gen.SandboxState{gen.SandboxStateRunning, gen.SandboxStatePaused} {
		o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/suspend?wait=30s", nil).want(t, 200))
		if o.Status != gen.OperationStatusFailed || o.Error.Code != string(space.CodeCapacity) || o.Sandbox.State != state || o.Sandbox.Execution != box.Execution || o.Sandbox.RecoveryPoint != nil {
			t.Fatalf("%+v, %+v", o, o.Error)
		}
		if state == gen.SandboxStateRunning {
			r.verb(t, box.Id, "pause")
		}
	}
	r.node.without(t, func() bool { return len(r.node.snapshots) == 0 })
}

// TestAFailedRestoreLeavesItSuspended fails the load, and then does it cold.
func TestAFailedRestoreLeavesItSuspended(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.verb(t, box.Id, "suspend")
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			return space.ExecutionFailed, space.Errorf(space.CodeConflict, "the snapshot is of another VMM")
		}
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/restore?wait=30s", nil).want(t, 200))
	if o.Status != gen.OperationStatusFailed || o.Sandbox.State != gen.SandboxStateSuspended || o.Sandbox.Execution != box.Execution || !strings.Contains(*o.Error.Detail, "another VMM") {
		t.Fatalf("%+v, %+v", o, o.Error)
	}
	r.node.without(t, func() bool { return len(r.node.executions) == 1 }) // the failed one is removed
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil }
	})
	r.node.took()
	o = decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/restore?wait=30s&cold=true", nil).want(t, 200))
	if o.Status != gen.OperationStatusSucceeded || o.Sandbox.Execution.Epoch != 3 {
		t.Fatalf("%+v, %+v", o, o.Error)
	}
	if orders := r.node.took(); !slices.ContainsFunc(orders, func(o nodesync.Order) bool { return o.Kind == nodesync.EnsureExecution && o.Cold }) {
		t.Errorf("ordered %+v", orders)
	}
}

// TestASuspendedSandboxIsLostWithItsSnapshot takes the snapshot away, and damages it. What the node has of a lost one it keeps until the sandbox is deleted.
func TestASuspendedSandboxIsLostWithItsSnapshot(t *testing.T) {
	for name, harm := range map[string]func(map[string]record.SnapshotStatus, string){
		"gone": func(all map[string]record.SnapshotStatus, id string) { delete(all, id) },
		"damaged": func(all map[string]record.SnapshotStatus, id string) {
			s := all[id]
			s.State, s.Error = record.SnapshotFailed, space.Errorf(space.CodeSnapshotUnusable, "its disk is missing")
			all[id] = s
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			box := r.sandbox(t)
			o := r.verb(t, box.Id, "suspend")
			r.node.change(func() { harm(r.node.snapshots, o.Sandbox.RecoveryPoint.Snapshot) })
			s := r.state(t, box.Id, gen.SandboxStateLost)
			if s.RecoveryPoint != nil || s.Error == nil {
				t.Errorf("%+v", s)
			}
			r.node.without(t, func() bool { return len(r.node.snapshots) == map[string]int{"damaged": 1}[name] })
			r.deleteSandbox(t, box.Id)
			r.node.without(t, func() bool { return len(r.node.snapshots) == 0 })
		})
	}
}

func (r *rig) deleteSandbox(t *testing.T, id string) (operation string) {
	t.Helper()
	o := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+id+"?wait=30s", nil).want(t, 200))
	if o.Status != gen.OperationStatusSucceeded {
		t.Fatalf("delete: %+v", o)
	}
	return o.Id
}

// without waits until the node has what is asked for.
func (n *obedientNode) without(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		n.mu.Lock()
		ok := is()
		n.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node has %d executions and snapshots %v", len(n.executions), n.snapshots)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rig) eventTypes(t *testing.T, sandbox string) []string {
	t.Helper()
	var out []string
	for _, e := range decode[gen.EventPage](t, r.do(t, "GET", "/v1/events?limit=100&sandbox="+sandbox, nil).want(t, 200)).Items {
		out = append(out, string(e.Type))
	}
	return out
}
