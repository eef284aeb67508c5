package service

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/api/gen/host/v1/hostv1connect"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/gen/sandbox/v1/sandboxv1connect"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/api/gen/upload/v1/uploadv1connect"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/peer"
)

// maxRequest bounds a request in bytes: an Attach carries up to 1 MiB of stdin.
const maxRequest = 3 << 20

// Executions does what is ordered about executions. See execution.Table.
type Executions interface {
	Ensure(ctx context.Context, o execution.Order) (execution.Report, error)
	Stop(ctx context.Context, r space.Route, grace time.Duration) error
	Pause(ctx context.Context, r space.Route) error
	Resume(ctx context.Context, r space.Route) error
	Suspend(ctx context.Context, r space.Route, snapshot string) error
	TakeSnapshot(ctx context.Context, r space.Route, id string, kind snapshot.Kind) error
	Remove(ctx context.Context, r space.Route) error
	Attach(ctx context.Context, r space.Route, q session.Request, send session.Send) error
	Sessions(r space.Route) (*session.Set, error)
	Kept(r space.Route) (*session.Store, error)
	Guest(ctx context.Context, r space.Route, f func(*link.Link) error) error
	Usage(ctx context.Context, r space.Route) (*sandboxv1.Usage, error)
	Reports() []execution.Report
}

// Host implements the services.
type Host struct {
	Node       string // its name
	Executions Executions
	Templates  Templates
	Snapshots  Snapshots
	Uploads    Uploads
	Ends       Ends
	Facts      func() *controlv1.NodeFacts
	Changes    *Changes // notified when a report changes

	life atomic.Uint64 // of the manager that listens, or the last one that did
}

// Ends are how sessions ended, each until the control plane has it.
type Ends interface {
	Untold() []*controlv1.SessionEnd
	Acknowledge(sessions []string)
}

var (
	_ hostv1connect.HostServiceHandler       = (*Host)(nil)
	_ sessionv1connect.SessionServiceHandler = (*Host)(nil)
	_ sandboxv1connect.SandboxServiceHandler = (*Host)(nil)
	_ uploadv1connect.UploadServiceHandler   = (*Host)(nil)
)

// Handler returns the services as an HTTP handler.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(hostv1connect.NewHostServiceHandler(h, peer.HandlerOptions(maxRequest)))
	mux.Handle(sessionv1connect.NewSessionServiceHandler(h, peer.HandlerOptions(maxRequest)))
	mux.Handle(sandboxv1connect.NewSandboxServiceHandler(h, peer.HandlerOptions(maxRequest)))
	mux.Handle(uploadv1connect.NewUploadServiceHandler(h, peer.HandlerOptions(maxRequest)))
	return mux
}

// EnsureExecution makes an execution or joins the making of it.
func (h *Host) EnsureExecution(ctx context.Context, req *connect.Request[hostv1.EnsureExecutionRequest]) (*connect.Response[hostv1.EnsureExecutionResponse], error) {
	o := req.Msg.GetOrder()
	route, err := peer.Route(o.GetRoute())
	if err == nil {
		err = checkTemplate(o.GetTemplate())
	}
	if of := o.GetDiskOf(); err == nil && of != "" {
		err = checkID("disk_of", space.PrefixExecution, of)
	}
	if of := o.GetSnapshot(); err == nil && of != "" {
		err = checkID("snapshot", space.PrefixSnapshot, of)
	}
	if err == nil && o.GetSnapshot() != "" && o.GetDiskOf() != "" {
		err = space.FieldErrorf("disk_of", "a machine is made from a disk or from a snapshot, not both")
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	r, err := h.Executions.Ensure(ctx, execution.Order{
		Route: route, Template: o.GetTemplate(), Size: size(o.GetShape()), DiskOf: o.GetDiskOf(),
		Snapshot: o.GetSnapshot(), SnapshotDigest: o.GetSnapshotDigest(), Cold: o.GetCold(),
		Admit: func() error { return h.admit(req.Msg.GetLife()) },
	})
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.EnsureExecutionResponse{Report: executionReport(r)}), nil
}

// admit refuses what a manager has asked for whose successor has been told what there is.
func (h *Host) admit(life uint64) error {
	if now := h.life.Load(); life < now {
		return space.Errorf(space.CodeConflict, "life %d of the node's manager has asked for it, and it's at life %d", life, now)
	}
	return nil
}

// listen notes which life of the manager is to be told what there is.
func (h *Host) listen(life uint64) {
	for now := h.life.Load(); life > now && !h.life.CompareAndSwap(now, life); now = h.life.Load() {
	}
}

// RemoveExecution removes an execution to its last trace.
func (h *Host) RemoveExecution(ctx context.Context, req *connect.Request[hostv1.RemoveExecutionRequest]) (*connect.Response[hostv1.RemoveExecutionResponse], error) {
	route, err := peer.Route(req.Msg.GetRoute())
	if err == nil {
		err = h.Executions.Remove(ctx, route)
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.RemoveExecutionResponse{}), nil
}

// StopExecution ends an execution's processes and its machine, and keeps its disk.
func (h *Host) StopExecution(ctx context.Context, req *connect.Request[hostv1.StopExecutionRequest]) (*connect.Response[hostv1.StopExecutionResponse], error) {
	route, err := peer.Route(req.Msg.GetOrder().GetRoute())
	if err == nil {
		err = h.Executions.Stop(ctx, route, req.Msg.GetOrder().GetGrace().AsDuration())
	}
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(&hostv1.StopExecutionResponse{}), nil
}

// usageInterval is how often the status is sent when nothing has changed but figures.
const usageInterval = 5 * time.Second

// Watch sends the whole status now, after each change, and now and then for the figures' sake. Changes that come one upon the other share a message.
func (h *Host) Watch(ctx context.Context, req *connect.Request[hostv1.WatchRequest], stream *connect.ServerStream[hostv1.WatchResponse]) error {
	h.listen(req.Msg.GetLife())
	figures := time.NewTicker(usageInterval)
	defer figures.Stop()
	var p pace
	for {
		next := h.Changes.Next()
		p.sent(time.Now())
		if err := stream.Send(h.status()); err != nil {
			return err
		}
		select {
		case <-next:
		case <-figures.C:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(p.wait(time.Now())):
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *Host) status() *hostv1.WatchResponse {
	out := &hostv1.WatchResponse{Facts: h.Facts()}
	for _, r := range h.Executions.Reports() {
		out.Executions = append(out.Executions, executionReport(r))
	}
	for _, r := range h.Templates.Reports() {
		out.Templates = append(out.Templates, templateReport(r))
	}
	for _, r := range h.Snapshots.Reports() {
		out.Snapshots = append(out.Snapshots, snapshotReport(r))
	}
	for _, u := range h.Uploads.List() {
		out.Uploads = append(out.Uploads, &controlv1.UploadReport{Upload: u.ID, Bytes: uint64(u.Bytes)})
	}
	out.SessionEnds = h.Ends.Untold()
	return out
}

func checkTemplate(id string) error { return checkID("template", space.PrefixTemplate, id) }

func checkID(field string, p space.Prefix, id string) error {
	if err := space.CheckID(p, id); err != nil {
		return space.FieldErrorf(field, "%s", err)
	}
	return nil
}
