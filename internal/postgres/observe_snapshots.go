package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// observeSnapshots writes what was seen of snapshots, and ends the operations that waited for it. A sandbox that couldn't be suspended is wanted as it is.
func observeSnapshots(ctx context.Context, q *db.Queries, seen []record.SnapshotSeen, boxes []db.LockSandboxesOfSnapshotsRow) (ended []string, err error) {
	if len(seen) == 0 {
		return nil, nil
	}
	states := map[string]record.SnapshotStatus{}
	for _, s := range seen {
		states[s.ID] = s.Status
	}
	written, err := writeSnapshots(ctx, q, seen)
	if err != nil {
		return nil, err
	}
	news := map[string]record.SnapshotStatus{}
	var gone, of []string
	for _, w := range written {
		if s := states[w.ID]; string(s.State) != w.Before {
			news[w.ID] = s
			of = append(of, w.Sandbox)
			if s.State == record.SnapshotGone {
				gone = append(gone, w.ID)
			}
			if err := emitSnapshot(ctx, q, w, s); err != nil {
				return nil, err
			}
		}
	}
	if len(gone) > 0 {
		if err := q.MarkSnapshotsGone(ctx, gone); err != nil {
			return nil, err
		}
	}
	if len(news) == 0 {
		return nil, nil
	}
	return followSnapshots(ctx, q, news, of, boxes)
}

// lockOfSnapshots locks the sandboxes that snapshots are of.
func lockOfSnapshots(ctx context.Context, q *db.Queries, seen []record.SnapshotSeen) ([]db.LockSandboxesOfSnapshotsRow, error) {
	if len(seen) == 0 {
		return nil, nil
	}
	var ids []string
	for _, s := range seen {
		ids = append(ids, s.ID)
	}
	return q.LockSandboxesOfSnapshots(ctx, ids)
}

// beforeAll stands for a time that isn't known.
var beforeAll = time.Unix(0, 0)

func writeSnapshots(ctx context.Context, q *db.Queries, seen []record.SnapshotSeen) ([]db.ObserveSnapshotsRow, error) {
	var p db.ObserveSnapshotsParams
	for _, s := range seen {
		at := s.Status.At
		if at.IsZero() {
			at = beforeAll
		}
		code, message := failureColumns(s.Status.Error)
		p.Snapshots, p.States = append(p.Snapshots, s.ID), append(p.States, string(s.Status.State))
		p.ErrorCodes, p.ErrorMessages = append(p.ErrorCodes, text(code)), append(p.ErrorMessages, text(message))
		p.TakenAt, p.PauseMicros, p.Bytes = append(p.TakenAt, at), append(p.PauseMicros, s.Status.Pause.Microseconds()), append(p.Bytes, int64(s.Status.Bytes))
		p.Digests, p.Parents = append(p.Digests, s.Status.Digest), append(p.Parents, s.Status.Parent)
		p.Drivers, p.Versions, p.Cpus = append(p.Drivers, s.Status.Driver), append(p.Versions, s.Status.Version), append(p.Cpus, s.Status.CPU)
	}
	return q.ObserveSnapshots(ctx, p)
}

// followSnapshots ends the operations that waited for what snapshots have come to.
func followSnapshots(
	ctx context.Context, q *db.Queries, news map[string]record.SnapshotStatus, sandboxes []string, boxes []db.LockSandboxesOfSnapshotsRow,
) ([]string, error) {
	running, err := q.OperationsOfSnapshots(ctx, sandboxes)
	if err != nil {
		return nil, err
	}
	o := observation{q: q}
	for _, op := range running {
		s, seen := news[op.Snapshot]
		if !seen {
			continue
		}
		kind := record.OperationKind(op.Kind)
		if operations.LetsGo(kind, s) {
			o.endings.letGo = append(o.endings.letGo, op.ID)
		}
		over, failure := operations.SnapshotOutcome(kind, s)
		if !over {
			continue
		}
		o.endings.add(op.ID, op.Fork, failure)
		if kind == record.SuspendSandbox && failure != nil {
			o.stay(op.Sandbox, boxes)
		}
	}
	return o.finish(ctx)
}

// stay makes what is desired of a sandbox what it is.
func (o *observation) stay(sandbox string, boxes []db.LockSandboxesOfSnapshotsRow) {
	for _, b := range boxes {
		if b.ID == sandbox {
			o.desire(sandbox, operations.FallBack(observed(b.State)), "", "")
			return
		}
	}
}

// emitSnapshot tells what happened to a snapshot.
func emitSnapshot(ctx context.Context, q *db.Queries, w db.ObserveSnapshotsRow, s record.SnapshotStatus) error {
	t, told := map[record.SnapshotState]record.EventType{
		record.SnapshotReady: record.EventSnapshotReady, record.SnapshotFailed: record.EventSnapshotFailed, record.SnapshotLost: record.EventSnapshotLost,
		record.SnapshotGone: record.EventSnapshotDeleted,
	}[s.State]
	if !told {
		return nil
	}
	data := map[string]any{"snapshot": w.ID}
	maps.Copy(data, errorData(s.Error))
	b, err := eventData(data)
	if err != nil {
		return err
	}
	note(ctx, w.Project)
	return q.InsertEvent(ctx, db.InsertEventParams{Project: w.Project, Type: string(t), Sandbox: &w.Sandbox, Data: b})
}
