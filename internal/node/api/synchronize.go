package api

import (
	"context"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// maxHang is the longest that a Synchronize call may hang, and answerTime what the control plane has beyond it.
const (
	maxHang    = 30 * time.Second
	answerTime = 10 * time.Second
)

// Synchronize passes sbx-manager's report on to the control plane, and the answer back.
func (d *door) Synchronize(ctx context.Context, req *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	hang, err := d.checkReport(req.Msg)
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	release, err := slot(d.reports, "reports")
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, hang+answerTime)
	defer cancel()
	resp, err := d.control.Synchronize(ctx, connect.NewRequest(req.Msg))
	if err != nil {
		return nil, peer.ToConnect(peer.FromConnect(err))
	}
	for _, o := range resp.Msg.GetOrders() {
		showOrder(ctx, o)
	}
	return connect.NewResponse(resp.Msg), nil
}

// showOrder tells that an order passes by that a request has asked for, so that the request is found in the log and the traces of this hop too.
func showOrder(ctx context.Context, o *controlv1.Order) {
	c := telemetry.Cause{Request: o.GetCause().GetRequest(), Traceparent: o.GetCause().GetTraceparent()}.WellFormed()
	if c.Request == "" {
		return
	}
	ctx = c.In(ctx)
	kind := string(o.ProtoReflect().WhichOneof(o.ProtoReflect().Descriptor().Oneofs().Get(0)).Name())
	slog.InfoContext(ctx, "an order passes", "kind", kind)
	telemetry.Pass(ctx, "order "+kind)
}

// checkReport refuses a report that doesn't speak for this node, as a whole: half a report would be read as absence of the rest.
func (d *door) checkReport(m *controlv1.SynchronizeRequest) (hang time.Duration, err error) {
	if m.GetNode() != d.node {
		return 0, space.FieldErrorf("node", "%q isn't this node", space.Clip(m.GetNode()))
	}
	for _, e := range m.GetExecutions() {
		if err := d.checkRoute(e.GetRoute()); err != nil {
			return 0, err
		}
	}
	hang = m.GetMaxHang().AsDuration()
	if hang < 0 || hang > maxHang {
		return 0, space.FieldErrorf("max_hang", "%s, want 0 to %s", hang, maxHang)
	}
	return hang, nil
}
