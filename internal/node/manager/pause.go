package manager

import (
	"context"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// How long a call may take that brings an execution to stand still or to go on. A suspend is only begun by it.
const (
	turnTimeout    = 3 * time.Minute
	suspendTimeout = 10 * time.Second
)

type routeMessage = routev1.Route

// turnOrder is what PauseExecution, ResumeExecution or SuspendExecution ask for.
type turnOrder struct {
	route     space.Route
	wanted    wanted
	operation string // of a pause or resume
	snapshot  string // of a suspend
	cause     telemetry.Cause
}

// orderTurn is the record after a turn was ordered. The newest one counts; after a stop or a removal none does. An order that was refused, and comes again
// because its refusal is still on its way, changes nothing.
func orderTurn(old *record, o turnOrder) (record, error) {
	if old == nil {
		return record{}, space.Errorf(space.CodeNotFound, "execution %s isn't on this node", o.route.Execution)
	}
	if err := o.route.Match(old.Route); err != nil {
		return record{}, err
	}
	if old.Wanted == wantRemoved || old.Wanted == wantStopped {
		return record{}, space.Errorf(space.CodeConflict, "execution %s was ordered to be %s", o.route.Execution, old.Wanted)
	}
	if o.operation != "" && o.operation == old.Refused {
		return *old, nil
	}
	r := old.want(o.wanted, o.cause)
	r.Operation, r.Snapshot, r.Refused, r.Refusal = o.operation, o.snapshot, "", nil
	return r, nil
}

// refuseTurn is the record after what is wanted couldn't be done: it's what it was, and nothing else is wanted any more.
func refuseTurn(r record, why error) record {
	switch {
	case r.Wanted == wantSuspended:
	case r.Operation != "":
		r.Refusal, r.Refused = problemOf(why), r.Operation
	}
	r.Wanted, r.Operation, r.Snapshot = wantRunning, "", ""
	if r.State == space.ExecutionPaused {
		r.Wanted = wantPaused
	}
	return r
}

// orderTurn adds to c that an execution is to pause, go on or be suspended. mu is held.
func (t *table) orderTurn(c change, m *routev1.Route, o turnOrder) (id string, err error) {
	id = m.GetExecution()
	if o.route, err = t.route(m); err != nil {
		return id, err
	}
	if o.wanted == wantSuspended {
		if err := space.CheckID(space.PrefixSnapshot, o.snapshot); err != nil {
			return id, space.FieldErrorf("snapshot", "%v", err)
		}
		if t.host.snapshot(o.snapshot) == snapshotFailed || t.snapshots[o.snapshot].err != nil {
			return id, nil // which the control plane is about to hear
		}
	}
	old := t.record(id)
	next, err := orderTurn(old, o)
	return id, addRecord(c, old, next, err)
}

// refusedTurn notes that the host refused what is wanted for good. Of a suspend its snapshot is reported as failed.
func (t *table) refusedTurn(r record, why error) error {
	t.mu.Lock()
	if r.Wanted == wantSuspended && t.host.snapshot(r.Snapshot) == "" && len(t.snapshots) < maxSnapshotOrders {
		p := problemOf(why)
		t.noteSnapshot(r.Snapshot, &snapshotOrder{err: p, report: failedSnapshot(r.Snapshot, peer.RouteMessage(r.Route), controlv1.SnapshotKind_SNAPSHOT_KIND_FULL, p)})
	}
	t.mu.Unlock()
	return t.update(r.Route.Execution, func(now record) record {
		if now.Wanted != r.Wanted || now.Operation != r.Operation || now.Snapshot != r.Snapshot {
			return now
		}
		return refuseTurn(now, why)
	})
}

// pause, resume and suspend tell the host; that it has done it shows in its Watch.
func (m *Manager) pause(ctx context.Context, r record) error {
	return m.turn(ctx, r, turnTimeout, func(ctx context.Context) error {
		_, err := m.host.PauseExecution(ctx, connect.NewRequest(&hostv1.PauseExecutionRequest{
			Order: &controlv1.PauseExecution{Route: peer.RouteMessage(r.Route), Operation: r.Operation},
		}))
		return err
	})
}

func (m *Manager) resume(ctx context.Context, r record) error {
	return m.turn(ctx, r, turnTimeout, func(ctx context.Context) error {
		_, err := m.host.ResumeExecution(ctx, connect.NewRequest(&hostv1.ResumeExecutionRequest{
			Order: &controlv1.ResumeExecution{Route: peer.RouteMessage(r.Route), Operation: r.Operation},
		}))
		return err
	})
}

func (m *Manager) suspend(ctx context.Context, r record) error {
	return m.turn(ctx, r, suspendTimeout, func(ctx context.Context) error {
		_, err := m.host.SuspendExecution(ctx, connect.NewRequest(&hostv1.SuspendExecutionRequest{
			Order: &controlv1.SuspendExecution{Route: peer.RouteMessage(r.Route), Snapshot: r.Snapshot},
		}))
		return err
	})
}

// turn makes a call and notes that the host refused it for good.
func (m *Manager) turn(ctx context.Context, r record, timeout time.Duration, call func(context.Context) error) error {
	err := limited(ctx, m.freezes, timeout, call)
	if refusal := refused(err); refusal != nil && ctx.Err() == nil {
		return m.table.refusedTurn(r, refusal)
	}
	return err
}
