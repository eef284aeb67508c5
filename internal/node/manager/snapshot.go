package manager

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// maxSnapshotOrders is how many orders about snapshots wait for the host.
const maxSnapshotOrders = 1024

// The states of a snapshot as reports name them.
const (
	snapshotMaking = "making"
	snapshotFailed = "failed"
)

// How long a call about a snapshot may take. The host only begins one; it removes it at once.
const (
	takeTimeout    = 10 * time.Second
	discardTimeout = time.Minute
)

// snapshotOrder is what was ordered about a snapshot and doesn't show on the host yet: that it's taken, or removed. It's in memory alone, since the control
// plane gives these orders until the report has what they ask for. Until a snapshot shows it's reported as being made, so that nobody takes it for one that
// was made and is gone; one that the host has refused is reported as failed until the control plane has heard that.
type snapshotOrder struct {
	take   *controlv1.TakeSnapshot // nil: it's to be removed
	cause  telemetry.Cause
	err    *problem // the host refused it for good
	report *controlv1.SnapshotReport
	called time.Time // when the host accepted
}

// decideSnapshot returns what an order lacks: to be told to the host, or to be seen in its reports.
func decideSnapshot(o snapshotOrder) action {
	switch {
	case o.err != nil:
		return actNone
	case !o.called.IsZero():
		return actConfirm
	case o.take == nil:
		return actDiscard
	default:
		return actTake
	}
}

// orderTake notes that a snapshot is to be taken, unless the host shows it. mu is held.
func (t *table) orderTake(o *controlv1.TakeSnapshot, cause telemetry.Cause) (string, error) {
	id := o.GetSnapshot()
	if _, err := t.route(o.GetRoute()); err != nil {
		return id, err
	}
	if ordered, err := t.snapshotOrdered(id); err != nil || ordered || t.host.snapshot(id) != "" {
		return id, err
	}
	t.noteSnapshot(id, &snapshotOrder{take: o, cause: cause, report: &controlv1.SnapshotReport{
		Snapshot: id, State: snapshotMaking, Route: o.GetRoute(), Kind: o.GetKind(),
	}})
	return id, nil
}

// orderDiscard notes that a snapshot is to be removed. mu is held.
func (t *table) orderDiscard(o *controlv1.RemoveSnapshot, cause telemetry.Cause) (string, error) {
	id := o.GetSnapshot()
	if ordered, err := t.snapshotOrdered(id); err != nil || ordered && t.snapshots[id].err == nil {
		return id, err
	}
	t.noteSnapshot(id, &snapshotOrder{cause: cause})
	return id, nil
}

// snapshotOrdered reports whether an order about a snapshot stands. It refuses what isn't an id, and a new order over the limit. mu is held.
func (t *table) snapshotOrdered(id string) (bool, error) {
	if err := space.CheckID(space.PrefixSnapshot, id); err != nil {
		return false, space.FieldErrorf("snapshot", "%v", err)
	}
	if _, ok := t.snapshots[id]; ok {
		return true, nil
	}
	if len(t.snapshots) >= maxSnapshotOrders {
		return false, space.Errorf(space.CodeCapacity, "%d orders about snapshots wait already", maxSnapshotOrders)
	}
	return false, nil
}

// noteSnapshot changes an order, or drops it. mu is held.
func (t *table) noteSnapshot(id string, o *snapshotOrder) {
	if o == nil {
		delete(t.snapshots, id)
	} else {
		t.snapshots[id] = *o
	}
	t.announce()
	t.kick(id)
}

// told notes that the host has accepted an order about a snapshot, or refused it for good. A removal that is refused is dropped: the host's report shows that
// the snapshot is still there.
func (t *table) told(id string, refused error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.snapshots[id]
	switch {
	case !ok:
	case refused == nil:
		o.called = t.now()
		t.noteSnapshot(id, &o)
	case o.take == nil:
		t.noteSnapshot(id, nil)
	default:
		o.err = problemOf(refused)
		o.report = failedSnapshot(id, o.take.GetRoute(), o.take.GetKind(), o.err)
		t.noteSnapshot(id, &o)
	}
}

func failedSnapshot(id string, route *routeMessage, kind controlv1.SnapshotKind, why *problem) *controlv1.SnapshotReport {
	return &controlv1.SnapshotReport{Snapshot: id, State: snapshotFailed, Route: route, Kind: kind, Error: peer.ErrorMessage(why.err())}
}

// settled reports whether the host's own report stands for an order from now on.
func (o snapshotOrder) settled(shown bool, now time.Time) bool {
	switch {
	case o.err != nil || o.take != nil && shown:
		return shown
	case o.called.IsZero():
		return false
	case now.Sub(o.called) >= confirmTemplate:
		return true
	default:
		return o.take == nil && !shown
	}
}

// settleSnapshots drops the orders for which the host's reports stand by now. mu is held.
func (t *table) settleSnapshots() {
	for id, o := range maps.Clone(t.snapshots) {
		if o.settled(t.host.snapshot(id) != "", t.now()) {
			t.noteSnapshot(id, nil)
		}
	}
}

// snapshotReports is the host's word on snapshots, and what it hasn't come to. mu is held.
func (t *table) snapshotReports() []*controlv1.SnapshotReport {
	var out []*controlv1.SnapshotReport
	for id, o := range t.snapshots {
		if o.report != nil && t.host.snapshot(id) == "" {
			out = append(out, o.report)
		}
	}
	if t.host != nil {
		out = append(out, t.host.snapshots...)
	}
	return out
}

// snapshot returns the state of a snapshot on the host, "" if it doesn't show it.
func (h *hostStatus) snapshot(id string) string {
	if h == nil {
		return ""
	}
	for _, r := range h.snapshots {
		if r.GetSnapshot() == id {
			return r.GetState()
		}
	}
	return ""
}

// snapshotError is why a snapshot couldn't be made, nil if that isn't so. mu of the table is held.
func (h *hostStatus) snapshotError(id string) error {
	if h.snapshot(id) != snapshotFailed {
		return nil
	}
	for _, r := range h.snapshots {
		if r.GetSnapshot() == id {
			return peer.MessageError(r.GetError())
		}
	}
	return nil
}

func (m *Manager) takeSnapshot(ctx context.Context, id string, o snapshotOrder) error {
	return m.aboutSnapshot(ctx, id, takeTimeout, func(ctx context.Context) error {
		_, err := m.host.TakeSnapshot(ctx, connect.NewRequest(&hostv1.TakeSnapshotRequest{Order: o.take}))
		return err
	})
}

func (m *Manager) discard(ctx context.Context, id string) error {
	return m.aboutSnapshot(ctx, id, discardTimeout, func(ctx context.Context) error {
		_, err := m.host.RemoveSnapshot(ctx, connect.NewRequest(&hostv1.RemoveSnapshotRequest{Order: &controlv1.RemoveSnapshot{Snapshot: id}}))
		return err
	})
}

// aboutSnapshot makes a call about a snapshot and notes that the host accepted it, or refused it for good.
func (m *Manager) aboutSnapshot(ctx context.Context, id string, timeout time.Duration, call func(context.Context) error) error {
	err := limited(ctx, m.freezes, timeout, call)
	refusal := refused(err)
	if err != nil && (refusal == nil || ctx.Err() != nil) {
		return err
	}
	if refusal != nil {
		slog.WarnContext(ctx, "the host refused an order about a snapshot", "snapshot", id, "err", refusal)
	}
	m.table.told(id, refusal)
	return nil
}

// confirm waits until the host has had its time to show an accepted order.
func (m *Manager) confirm(ctx context.Context) error {
	wait(ctx, confirmTemplate, nil)
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	m.table.settleSnapshots()
	return nil
}
