package postgres

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// connectedWithin is how old a node's last call may be for the node to count as connected.
const connectedWithin = time.Minute

// Node returns a node that has registered; not_found if it hasn't.
func (s *Store) Node(ctx context.Context, name string) (record.Node, error) {
	var out record.Node
	err := s.read(ctx, "read node "+name, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Node(ctx, db.NodeParams{Name: name, Within: connectedWithin})
		if err != nil {
			return missing(err, "node")
		}
		out = record.Node{Name: r.Name, SynchronizedAt: r.SynchronizedAt, Connected: r.Connected, Facts: record.Facts{
			Driver: r.Driver, Acceleration: r.Acceleration, CPUs: uint32(r.Cpus), MemoryBytes: uint64(r.MemoryBytes), Version: r.Version,
			SandboxMemoryBytes: uint64(r.SandboxMemoryBytes), MemoryAvailableBytes: uint64(r.MemoryAvailableBytes),
			DiskBytes: uint64(r.DiskBytes), DiskFreeBytes: uint64(r.DiskFreeBytes), DiskPressure: record.DiskPressure(r.DiskPressure),
			OverheadBytes: uint64(r.OverheadBytes), ReservedBytes: uint64(r.ReservedMemoryBytes),
		}}
		return nil
	})
	return out, err
}

// Wanted returns all that a node should have, and the executions that it should no longer have and that aren't gone. It's read with one
// request to the server: each call of a node waits for it.
func (s *Store) Wanted(ctx context.Context, node string) (record.Wanted, error) {
	var out record.Wanted
	err := s.read(ctx, "read what node "+node+" should have", func(ctx context.Context, _ *db.Queries) error {
		var executions []db.NodeExecutionsRow
		var templates []db.NodeTemplatesRow
		var uploads []db.NodeUploadsRow
		var snapshots []db.NodeSnapshotsRow
		var g errgroup.Group
		j := newJoint(ctx, 4, s.pool.SendBatch)
		q := db.New(j)
		g.Go(func() (err error) { executions, err = q.NodeExecutions(ctx, node); return err })
		g.Go(func() (err error) { templates, err = q.NodeTemplates(ctx, node); return err })
		g.Go(func() (err error) { uploads, err = q.NodeUploads(ctx, node); return err })
		g.Go(func() (err error) { snapshots, err = q.NodeSnapshots(ctx, node); return err })
		err := g.Wait()
		if cerr := j.close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		for _, r := range snapshots {
			out.Snapshots = append(out.Snapshots, wantedSnapshot(r))
		}
		for _, r := range executions {
			out.Executions = append(out.Executions, wantedExecution(r))
		}
		for _, r := range templates {
			out.Templates = append(out.Templates, wantedTemplate(r))
		}
		for _, r := range uploads {
			out.Uploads = append(out.Uploads, record.UploadSeen(r))
		}
		return nil
	})
	return out, err
}

func wantedExecution(r db.NodeExecutionsRow) record.WantedExecution {
	return record.WantedExecution{
		Route:    route(r.Sandbox, r.ID, r.Epoch, r.PlacementKind, r.Node, r.PodUid),
		Template: r.Template, Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes), DiskOf: text(r.DiskOf),
		Want: record.Want(r.Want), Grace: time.Duration(r.StopGraceMillis) * time.Millisecond, Recorded: observed(r.State), Cause: cause(r.Request, r.Traceparent),
		SuspendInto: text(r.SuspendInto), HeldBy: text(r.HeldBy), Operation: r.Operation,
		From: record.Loading{
			Snapshot: text(r.Snapshot), State: record.SnapshotState(text(r.SnapshotState)), Digest: text(r.SnapshotDigest), Cold: r.Cold,
			Error: failure(r.SnapshotErrorCode, r.SnapshotErrorMessage),
		},
	}
}

func wantedSnapshot(r db.NodeSnapshotsRow) record.WantedSnapshot {
	out := record.WantedSnapshot{
		ID: r.ID, Route: route(r.Sandbox, r.Execution, r.Epoch, r.PlacementKind, r.Node, r.PodUid), Kind: record.SnapshotKind(r.Kind), Want: record.SnapshotTaken,
		Execution: space.ExecutionGone, Recorded: record.SnapshotStatus{State: record.SnapshotState(text(r.State)), Digest: text(r.Digest), Error: failure(r.ErrorCode, r.ErrorMessage)},
		DeletedBy: r.DeletedBy,
	}
	if r.Known {
		out.Execution = observed(r.ExecutionState)
	}
	if r.Bytes != nil {
		out.Recorded.Bytes, out.Recorded.Pause = uint64(*r.Bytes), time.Duration(*r.PauseMicros)*time.Microsecond
	}
	if r.TakenAt != nil {
		out.Recorded.At = *r.TakenAt
	}
	switch {
	case r.Away:
		out.Want = record.SnapshotAway
	case record.SnapshotPurpose(r.Purpose) == record.PurposeSuspend:
		out.Want = record.SnapshotHeld
	}
	return out
}
