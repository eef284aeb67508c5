package manager

import (
	"fmt"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// report is one full statement about the node.
type report struct {
	msg     *controlv1.SynchronizeRequest
	version uint64
	changed <-chan struct{} // closed when a newer report would say something else
	gone    []string        // executions whose tombstones the report bears out by leaving them out
	refused []string        // templates that the report says the host refused to build
	unmade  []string        // snapshots that it says the host refused to make
}

func (t *table) report() report {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := report{version: t.version, changed: t.changed, msg: &controlv1.SynchronizeRequest{
		Node: t.node, Complete: t.host != nil, Templates: t.templateReports(), Snapshots: t.snapshotReports(),
	}}
	if t.host != nil {
		out.msg.Facts, out.msg.SessionEnds, out.msg.Uploads = t.host.facts, t.untold(), t.host.uploads
	}
	for id, o := range t.orders {
		if o.Err != nil {
			out.refused = append(out.refused, id)
		}
	}
	for id, o := range t.snapshots {
		if o.err != nil {
			out.unmade = append(out.unmade, id)
		}
	}
	active := t.lastActive()
	for id, r := range t.records {
		if r.Removed {
			out.gone = append(out.gone, id)
			continue
		}
		e := t.executionReport(r)
		if at, ok := active[id]; ok {
			e.Active = timestamppb.New(at)
		}
		out.msg.Executions = append(out.msg.Executions, e)
	}
	return out
}

// maxUsageAge is how old figures may be to be told.
const maxUsageAge = 15 * time.Second

// executionReport is a record as the control plane reads it, with the host's newest figures of one that runs. mu is held.
func (t *table) executionReport(r record) *controlv1.ExecutionReport {
	out := r.report()
	if t.host == nil {
		return out
	}
	s, ok := t.host.listed[r.Route.Execution]
	if !ok || s.Route != r.Route {
		return out
	}
	out.Sessions = s.Sessions
	if r.State == space.ExecutionSuspended {
		out.Snapshot = s.Snapshot
	}
	if r.State == space.ExecutionRunning && t.now().Sub(s.Usage.GetAt().AsTime()) <= maxUsageAge {
		out.Usage = s.Usage
	}
	return out
}

// obey writes down the orders of the answer to a report, and drops the tombstones that the answer has acknowledged. It reports
// whether the orders changed anything. Orders that are malformed, late or over a limit are logged and left out: the next report
// shows the control plane that they weren't followed.
func (t *table) obey(orders []*controlv1.Order, rep report) (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, named := newChange(), map[string]bool{}
	for _, o := range orders {
		id, err := t.order(c, o)
		if err != nil {
			slog.Warn("refused an order", "order", id, "err", err)
		}
		named[id] = true
	}
	old := t.forgettable(rep, named)
	if err := t.store.write(c.with(old)); err != nil {
		return false, fmt.Errorf("take orders: %w", err)
	}
	t.forget(old)
	if c.empty() {
		return false, nil
	}
	t.show(c)
	c.log()
	return true, nil
}

// order adds what an order changes to c, and returns the id that it speaks of. mu is held.
func (t *table) order(c change, o *controlv1.Order) (string, error) {
	cause := telemetry.Cause{Request: o.GetCause().GetRequest(), Traceparent: o.GetCause().GetTraceparent()}.WellFormed()
	switch o := o.GetOrder().(type) {
	case *controlv1.Order_EnsureExecution:
		return t.orderRun(c, o.EnsureExecution, cause)
	case *controlv1.Order_RemoveExecution:
		return t.orderRemove(c, o.RemoveExecution, cause)
	case *controlv1.Order_EnsureTemplate:
		return t.orderTemplate(c, o.EnsureTemplate, cause)
	case *controlv1.Order_PauseExecution:
		return t.orderTurn(c, o.PauseExecution.GetRoute(), turnOrder{wanted: wantPaused, operation: o.PauseExecution.GetOperation(), cause: cause})
	case *controlv1.Order_ResumeExecution:
		return t.orderTurn(c, o.ResumeExecution.GetRoute(), turnOrder{wanted: wantRunning, operation: o.ResumeExecution.GetOperation(), cause: cause})
	case *controlv1.Order_SuspendExecution:
		return t.orderTurn(c, o.SuspendExecution.GetRoute(), turnOrder{wanted: wantSuspended, snapshot: o.SuspendExecution.GetSnapshot(), cause: cause})
	case *controlv1.Order_TakeSnapshot:
		return t.orderTake(o.TakeSnapshot, cause)
	case *controlv1.Order_RemoveSnapshot:
		return t.orderDiscard(o.RemoveSnapshot, cause)
	case *controlv1.Order_StopExecution:
		return t.orderStop(c, o.StopExecution, cause)
	case *controlv1.Order_RemoveTemplate:
		return t.orderDrop(c, o.RemoveTemplate, cause)
	case *controlv1.Order_RemoveUpload: // it's handed on at once, and given again if it wasn't followed: see received
		return o.RemoveUpload.GetUpload(), nil
	}
	return "", space.Errorf(space.CodeInvalid, "an order of a kind that this build doesn't know")
}

func (t *table) orderRun(c change, o *controlv1.EnsureExecution, cause telemetry.Cause) (string, error) {
	id := o.GetRoute().GetExecution()
	route, err := t.route(o.GetRoute())
	if err != nil {
		return id, err
	}
	if err := space.CheckID(space.PrefixTemplate, o.GetTemplate()); err != nil {
		return id, space.FieldErrorf("template", "%v", err)
	}
	old := t.record(id)
	if old == nil && len(t.records)+len(c.records) >= maxRecords {
		return id, space.Errorf(space.CodeCapacity, "the node keeps %d executions already", maxRecords)
	}
	order, err := messageOf(o)
	if err != nil {
		return id, err
	}
	next, err := orderRun(old, t.record(t.newest[route.Sandbox]), record{Route: route, Order: order, Cause: cause}, t.now())
	return id, addRecord(c, old, next, err)
}

func (t *table) orderStop(c change, o *controlv1.StopExecution, cause telemetry.Cause) (string, error) {
	id := o.GetRoute().GetExecution()
	route, err := t.route(o.GetRoute())
	if err != nil {
		return id, err
	}
	old := t.record(id)
	next, err := orderStop(old, route, o.GetGrace().AsDuration(), cause)
	return id, addRecord(c, old, next, err)
}

func (t *table) orderRemove(c change, o *controlv1.RemoveExecution, cause telemetry.Cause) (string, error) {
	id := o.GetRoute().GetExecution()
	route, err := t.route(o.GetRoute())
	if err != nil {
		return id, err
	}
	old := t.record(id)
	if old == nil && len(t.records)+len(c.records) >= maxRecords {
		return id, space.Errorf(space.CodeCapacity, "the node keeps %d executions already", maxRecords)
	}
	next, err := orderRemove(old, route, cause, t.now())
	return id, addRecord(c, old, next, err)
}

// route reads a route off the wire. It must name this node.
func (t *table) route(m *routev1.Route) (space.Route, error) {
	r, err := peer.Route(m)
	if err != nil {
		return space.Route{}, err
	}
	if want := (space.Placement{Kind: space.PlacementNode, Node: t.node}); r.Placement != want {
		return space.Route{}, space.Errorf(space.CodeRouteDenied, "the placement isn't this node")
	}
	return r, nil
}

func (t *table) record(id string) *record {
	r, ok := t.records[id]
	if !ok {
		return nil
	}
	return &r
}

func addRecord(c change, old *record, next record, err error) error {
	if err != nil {
		return err
	}
	if old == nil || !next.equal(*old) {
		c.records[next.Route.Execution] = &next
	}
	return nil
}

// forgettable is what an answer has acknowledged: tombstones (see the package comment), and orders that were told to be refused. mu is held.
func (t *table) forgettable(rep report, named map[string]bool) change {
	c := newChange()
	for _, id := range rep.gone {
		if r := t.record(id); r != nil && acknowledged(*r, rep.msg.GetComplete(), named[id], t.host.lists(id)) {
			c.records[id] = nil
		}
	}
	for _, id := range rep.unmade {
		if o, ok := t.snapshots[id]; ok && o.err != nil && !named[id] {
			delete(t.snapshots, id)
		}
	}
	for _, id := range rep.refused {
		if o, ok := t.orders[id]; ok && o.Err != nil && !named[id] {
			c.orders[id] = nil
		}
	}
	return c
}

// forget drops what is forgettable. No report says anything else because of it. mu is held.
func (t *table) forget(c change) {
	if !c.empty() {
		put(t.records, c.records)
		put(t.orders, c.orders)
		t.index()
	}
}
