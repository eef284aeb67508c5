package service

import (
	"context"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/peer"
)

// note notes what is ordered.
func (e executions) note(what string, r space.Route, more ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range append([]string{r.Execution}, more...) {
		what += " " + m
	}
	e.did = append(e.did, what)
	return e.err
}

func (e executions) Pause(_ context.Context, r space.Route) error  { return e.note("pause", r) }
func (e executions) Resume(_ context.Context, r space.Route) error { return e.note("resume", r) }

func (e executions) Suspend(_ context.Context, r space.Route, id string) error {
	return e.note("suspend", r, id)
}

func (e executions) TakeSnapshot(_ context.Context, r space.Route, id string, kind snapshot.Kind) error {
	return e.note("take", r, id, string(kind))
}

type snapshots struct{ *rig }

func (s snapshots) Reports() []snapshot.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rig.snapshots
}

func (s snapshots) Remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, "remove "+id)
	return s.err
}

// callsAboutSnapshots makes each call once.
func (r *rig) callsAboutSnapshots(route space.Route, id string, kind controlv1.SnapshotKind) []error {
	m := peer.RouteMessage(route)
	var errs []error
	add := func(err error) { errs = append(errs, peer.FromConnect(err)) }
	ctx := context.Background()
	_, err := r.host.PauseExecution(ctx, connect.NewRequest(&hostv1.PauseExecutionRequest{Order: &controlv1.PauseExecution{Route: m}}))
	add(err)
	_, err = r.host.ResumeExecution(ctx, connect.NewRequest(&hostv1.ResumeExecutionRequest{Order: &controlv1.ResumeExecution{Route: m}}))
	add(err)
	_, err = r.host.SuspendExecution(ctx, connect.NewRequest(&hostv1.SuspendExecutionRequest{Order: &controlv1.SuspendExecution{Route: m, Snapshot: id}}))
	add(err)
	_, err = r.host.TakeSnapshot(ctx, connect.NewRequest(&hostv1.TakeSnapshotRequest{Order: &controlv1.TakeSnapshot{Route: m, Snapshot: id, Kind: kind}}))
	add(err)
	_, err = r.host.RemoveSnapshot(ctx, connect.NewRequest(&hostv1.RemoveSnapshotRequest{Order: &controlv1.RemoveSnapshot{Snapshot: id}}))
	add(err)
	return errs
}

func TestOrdersAboutSnapshotsArePassedOn(t *testing.T) {
	r, route, id := newRig(t), route(), space.NewID(space.PrefixSnapshot)
	for i, err := range r.callsAboutSnapshots(route, id, controlv1.SnapshotKind_SNAPSHOT_KIND_DISK) {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	want := []string{"pause " + route.Execution, "resume " + route.Execution, "suspend " + route.Execution + " " + id, "take " + route.Execution + " " + id + " disk", "remove " + id}
	if !slices.Equal(r.did, want) {
		t.Errorf("it did %q, want %q", r.did, want)
	}
	r.err = space.Errorf(space.CodeExecutionLost, "gone")
	for i, err := range r.callsAboutSnapshots(route, id, controlv1.SnapshotKind_SNAPSHOT_KIND_FULL) {
		if space.CodeOf(err) != space.CodeExecutionLost {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for i, err := range r.callsAboutSnapshots(space.Route{}, "nonsense", 0) {
		if space.CodeOf(err) != space.CodeInvalid && space.CodeOf(err) != space.CodeRouteDenied {
			t.Errorf("call %d of nonsense: %v", i, err)
		}
	}
}

func TestSnapshotsAndTheirSessionsAreTold(t *testing.T) {
	r, route, id := newRig(t), route(), space.NewID(space.PrefixSnapshot)
	r.snapshots = []snapshot.Report{{
		Order:   snapshot.Order{Snapshot: id, Kind: snapshot.Full, Route: route},
		Machine: snapshot.Machine{Parent: "p", At: time.Unix(5, 0), Pause: time.Second, VMM: &vmm.Manifest{Driver: "d", Version: "v", CPU: "c"}},
		State:   snapshot.Ready, Digest: "sha256:x", Bytes: 7,
	}}
	r.reports = []execution.Report{{Route: route, State: space.ExecutionSuspended, Snapshot: id, Sessions: []session.Copy{{Session: "a", Of: "b"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := r.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	m := stream.Msg()
	s, e := m.GetSnapshots()[0], m.GetExecutions()[0]
	if s.GetSnapshot() != id || s.GetState() != "ready" || s.GetDigest() != "sha256:x" || s.GetParent() != "p" || s.GetBytes() != 7 ||
		s.GetKind() != controlv1.SnapshotKind_SNAPSHOT_KIND_FULL || s.GetAt().GetSeconds() != 5 || s.GetPause().GetSeconds() != 1 || s.GetOrigin().GetCpu() != "c" {
		t.Errorf("the snapshot is told as %v", s)
	}
	if e.GetSnapshot() != id || len(e.GetSessions()) != 1 || e.GetSessions()[0].GetOf() != "b" {
		t.Errorf("the execution is told as %v", e)
	}
}
