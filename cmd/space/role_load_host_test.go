//go:build load

package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	"github.com/space-platform/space/internal/host/loadtest"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/instance/instancetest"
	"github.com/space-platform/space/internal/peer"
)

// TestMachinesInsideConform holds the machines that cost nothing to the contract of all others.
func TestMachinesInsideConform(t *testing.T) {
	d, err := fake.NewInside(serveInside())
	if err != nil {
		t.Fatal(err)
	}
	vmmtest.Run(t, vmmtest.Fixture{Driver: d, Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 1 << 20}, Inside: true, Enclosure: vmmtest.Enclosure})
}

// TestAHostOfFakeMachinesKeepsTheirPast goes through all that a control plane orders about snapshots.
func TestAHostOfFakeMachinesKeepsTheirPast(t *testing.T) {
	i := instancetest.Own(t)
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(i.Volume(), 0), os.RemoveAll(i.DataDir()), os.RemoveAll(i.RunDir())); err != nil {
			t.Error(err)
		}
	})
	d, err := fake.NewInside(serveInside())
	if err != nil {
		t.Fatal(err)
	}
	h, err := loadtest.Open(t.Context(), i, d, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	host := hostv1connect.NewHostServiceClient(server.Client(), server.URL)
	tpl := space.NewID(space.PrefixTemplate)
	ok := func(what string, _ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ctx := t.Context()
	a, err := host.EnsureTemplate(ctx, connect.NewRequest(&hostv1.EnsureTemplateRequest{Order: &controlv1.EnsureTemplate{Template: tpl, Recipe: "mini"}}))
	ok("the template", a, err)
	ensure := func(o *controlv1.EnsureExecution) {
		t.Helper()
		a, err := host.EnsureExecution(ctx, connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: o}))
		ok("an execution", a, err)
		if r := a.Msg.GetReport(); r.GetState() != string(space.ExecutionRunning) {
			t.Fatalf("it's %v", r)
		}
	}
	route := space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: i.Node()}}
	m := peer.RouteMessage(route)
	ensure(&controlv1.EnsureExecution{Route: m, Template: tpl})
	p, err := host.PauseExecution(ctx, connect.NewRequest(&hostv1.PauseExecutionRequest{Order: &controlv1.PauseExecution{Route: m}}))
	ok("pause", p, err)
	r, err := host.ResumeExecution(ctx, connect.NewRequest(&hostv1.ResumeExecutionRequest{Order: &controlv1.ResumeExecution{Route: m}}))
	ok("resume", r, err)
	ready := func(id string) *controlv1.SnapshotReport {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		w, err := host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
		ok("watch", w, err)
		defer w.Close()
		for w.Receive() {
			for _, s := range w.Msg().GetSnapshots() {
				if s.GetSnapshot() == id && s.GetState() != "making" {
					return s
				}
			}
		}
		t.Fatalf("no snapshot: %v", w.Err())
		return nil
	}
	fork, suspended := space.NewID(space.PrefixSnapshot), space.NewID(space.PrefixSnapshot)
	taken, err := host.TakeSnapshot(ctx, connect.NewRequest(&hostv1.TakeSnapshotRequest{Order: &controlv1.TakeSnapshot{Route: m, Snapshot: fork, Kind: controlv1.SnapshotKind_SNAPSHOT_KIND_FULL}}))
	ok("take", taken, err)
	s := ready(fork)
	for range 3 {
		child := route
		child.Sandbox, child.Execution = space.NewID(space.PrefixSandbox), space.NewID(space.PrefixExecution)
		ensure(&controlv1.EnsureExecution{Route: peer.RouteMessage(child), Template: tpl, Snapshot: fork, SnapshotDigest: s.GetDigest()})
	}
	over, err := host.SuspendExecution(ctx, connect.NewRequest(&hostv1.SuspendExecutionRequest{Order: &controlv1.SuspendExecution{Route: m, Snapshot: suspended}}))
	ok("suspend", over, err)
	s = ready(suspended)
	next := route
	next.Execution, next.Epoch = space.NewID(space.PrefixExecution), 2
	ensure(&controlv1.EnsureExecution{Route: peer.RouteMessage(next), Template: tpl, Snapshot: suspended, SnapshotDigest: s.GetDigest()})
}
