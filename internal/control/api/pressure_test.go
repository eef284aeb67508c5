package api_test

import (
	"strings"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// fill has the node's volume be so full.
func (r *rig) fill(t *testing.T, free uint64, p record.DiskPressure) gen.Node {
	t.Helper()
	r.node.change(func() {
		r.node.facts.DiskBytes, r.node.facts.DiskFreeBytes, r.node.facts.DiskPressure, r.node.facts.MemoryAvailableBytes = 1000<<20, free<<20, p, 512<<20
	})
	var n gen.Node
	r.node.without(t, func() bool {
		n = decode[gen.Node](t, r.do(t, "GET", "/v1/node", nil).want(t, 200))
		return n.DiskFreeMb != nil && *n.DiskFreeMb == int(free)
	})
	return n
}

// TestAFullVolume fills the node's volume: it's warned of, then nothing new begins while what is there goes on (whether a machine may begin for it is the node's to say), and it's fine again when there's room.
func TestAFullVolume(t *testing.T) {
	r := newRig(t)
	box, gone := r.sandbox(t), r.sandbox(t)
	if n := decode[gen.Node](t, r.do(t, "GET", "/v1/node", nil).want(t, 200)); n.DiskMb != nil || n.Advice != nil || *n.SandboxMemoryMb != 4096 {
		t.Errorf("a node that hasn't said it: %+v", n)
	}
	create := func() reply { return r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`) }

	n := r.fill(t, 90, record.DiskWarning)
	if *n.DiskPressure != gen.NodeDiskPressureWarning || *n.DiskMb != 1000 || *n.MemoryAvailableMb != 512 || !strings.Contains(*n.Advice, "full to 91 %, and 90 MiB are free: delete snapshots") {
		t.Errorf("at 91 %%: %+v, %s", n, *n.Advice)
	}
	if h := decode[gen.Health](t, r.do(t, "GET", "/readyz", nil).want(t, 200)); h.Warnings == nil || (*h.Warnings)[0] != *n.Advice {
		t.Errorf("at 91 %% it's ready with %+v", h)
	}
	create().want(t, 201)

	n = r.fill(t, 40, record.DiskRefusing)
	if *n.DiskPressure != gen.NodeDiskPressureRefusing || !strings.Contains(*n.Advice, "no sandboxes, templates and snapshots are made, and no sandboxes started or restored, until there is room") {
		t.Errorf("at 96 %%: %+v", n)
	}
	path := "/v1/sandboxes/" + box.Id
	for _, refused := range []reply{
		r.do(t, "GET", "/readyz", nil), create(), r.do(t, "POST", path+"/fork", `{"count":1}`), r.do(t, "POST", path+"/snapshots", `{"kind":"disk"}`),
	} {
		refused.code(t, space.CodeCapacity)
	}
	start := r.node.start
	failing := func(verbs ...string) { // as a node does that has no room at that moment
		r.node.change(func() {
			r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
				return space.ExecutionFailed, space.Errorf(space.CodeCapacity, "the node's volume is full")
			}
		})
		before := decode[gen.Sandbox](t, r.do(t, "GET", path, nil).want(t, 200)).State
		for _, verb := range verbs {
			o := operation(t, r.do(t, "POST", path+"/"+verb, nil), 200, "failed")
			if o.Error.Code != string(space.CodeCapacity) || o.Sandbox.State != before {
				t.Errorf("%s of one that is %s: %+v, and it's %s", verb, before, o.Error, o.Sandbox.State)
			}
		}
		r.node.change(func() { r.node.start = start })
	}
	for _, verb := range []string{"pause", "suspend"} {
		r.verb(t, box.Id, verb)
	}
	failing("restore?wait=30s", "wake?wait=30s", "rollback?wait=30s")
	for _, verb := range []string{"restore", "stop"} {
		r.verb(t, box.Id, verb)
	}
	failing("start?wait=30s", "wake?wait=30s")
	r.verb(t, box.Id, "start")
	r.deleteSandbox(t, gone.Id)

	if n = r.fill(t, 500, record.DiskFine); n.DiskPressure != nil || n.Advice != nil {
		t.Errorf("at 50 %%: %+v", n)
	}
	create().want(t, 201)
	r.do(t, "GET", "/readyz", nil).want(t, 200)
}

// TestMemoryIsPromisedOnce has a node with memory for two sandboxes, their VMMs, and something else. Paused ones count, suspended ones don't.
func TestMemoryIsPromisedOnce(t *testing.T) {
	r := newRig(t)
	r.node.change(func() {
		f := &r.node.facts
		f.OverheadBytes, f.ReservedBytes = 20<<20, 4<<20
		f.SandboxMemoryBytes = 2*(128+20)<<20 + f.ReservedBytes
	})
	first, second := r.sandbox(t), r.sandbox(t)
	if n := decode[gen.Node](t, r.do(t, "GET", "/v1/node", nil).want(t, 200)); *n.SandboxMemoryMb != 300 || *n.OverheadMb != 20 || *n.ReservedMemoryMb != 4 {
		t.Errorf("the node has %+v", n)
	}
	create := func() reply { return r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`) }
	create().code(t, space.CodeCapacity)
	r.verb(t, first.Id, "pause")
	create().code(t, space.CodeCapacity)
	r.verb(t, first.Id, "suspend")
	third := *operation(t, create(), 201, "succeeded").Sandbox
	for _, verb := range []string{"restore", "wake"} {
		r.do(t, "POST", "/v1/sandboxes/"+first.Id+"/"+verb, nil).code(t, space.CodeCapacity)
	}
	r.verb(t, second.Id, "stop")
	r.verb(t, first.Id, "wake")
	r.do(t, "POST", "/v1/sandboxes/"+second.Id+"/start", nil).code(t, space.CodeCapacity)
	r.deleteSandbox(t, third.Id)
	r.verb(t, second.Id, "start")
}
