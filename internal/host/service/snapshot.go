package service

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/peer"
)

// Snapshots keeps the snapshots of sandboxes. See snapshot.Store.
type Snapshots interface {
	Reports() []snapshot.Report
	Remove(id string) error
}

// PauseExecution has an execution's machine stand still.
func (h *Host) PauseExecution(ctx context.Context, req *connect.Request[hostv1.PauseExecutionRequest]) (*connect.Response[hostv1.PauseExecutionResponse], error) {
	if err := onRoute(ctx, req.Msg.GetOrder().GetRoute(), h.Executions.Pause); err != nil {
		return nil, err
	}
	return connect.NewResponse(&hostv1.PauseExecutionResponse{}), nil
}

// ResumeExecution has a paused execution's machine run on.
func (h *Host) ResumeExecution(ctx context.Context, req *connect.Request[hostv1.ResumeExecutionRequest]) (*connect.Response[hostv1.ResumeExecutionResponse], error) {
	if err := onRoute(ctx, req.Msg.GetOrder().GetRoute(), h.Executions.Resume); err != nil {
		return nil, err
	}
	return connect.NewResponse(&hostv1.ResumeExecutionResponse{}), nil
}

// SuspendExecution has an execution's machine ended, once all that it is is in a snapshot.
func (h *Host) SuspendExecution(ctx context.Context, req *connect.Request[hostv1.SuspendExecutionRequest]) (*connect.Response[hostv1.SuspendExecutionResponse], error) {
	o := req.Msg.GetOrder()
	err := onRoute(ctx, o.GetRoute(), func(ctx context.Context, r space.Route) error {
		if err := checkID("snapshot", space.PrefixSnapshot, o.GetSnapshot()); err != nil {
			return err
		}
		return h.Executions.Suspend(ctx, r, o.GetSnapshot())
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&hostv1.SuspendExecutionResponse{}), nil
}

// TakeSnapshot begins a snapshot of an execution.
func (h *Host) TakeSnapshot(ctx context.Context, req *connect.Request[hostv1.TakeSnapshotRequest]) (*connect.Response[hostv1.TakeSnapshotResponse], error) {
	o := req.Msg.GetOrder()
	err := onRoute(ctx, o.GetRoute(), func(ctx context.Context, r space.Route) error {
		if err := checkID("snapshot", space.PrefixSnapshot, o.GetSnapshot()); err != nil {
			return err
		}
		kind, ok := kinds[o.GetKind()]
		if !ok {
			return space.FieldErrorf("kind", "%s: want disk or full", o.GetKind())
		}
		return h.Executions.TakeSnapshot(ctx, r, o.GetSnapshot(), kind)
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&hostv1.TakeSnapshotResponse{}), nil
}

// RemoveSnapshot removes a snapshot to its last trace.
func (h *Host) RemoveSnapshot(_ context.Context, req *connect.Request[hostv1.RemoveSnapshotRequest]) (*connect.Response[hostv1.RemoveSnapshotResponse], error) {
	id := req.Msg.GetOrder().GetSnapshot()
	err := checkID("snapshot", space.PrefixSnapshot, id)
	if err == nil {
		err = h.Snapshots.Remove(id)
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.RemoveSnapshotResponse{}), nil
}

// onRoute does something with the route of a message.
func onRoute(ctx context.Context, m *routev1.Route, do func(context.Context, space.Route) error) error {
	r, err := peer.Route(m)
	if err == nil {
		err = do(ctx, r)
	}
	return peer.ToConnect(err)
}

var kinds = map[controlv1.SnapshotKind]snapshot.Kind{
	controlv1.SnapshotKind_SNAPSHOT_KIND_DISK: snapshot.Disk,
	controlv1.SnapshotKind_SNAPSHOT_KIND_FULL: snapshot.Full,
}
