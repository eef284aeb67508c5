package postgres

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxSnapshots bounds the snapshots of one sandbox that aren't deleted. A suspend is let through, whatever others there are: what was left of earlier ones is
// collected, and a sandbox that can't be suspended would keep its node's memory.
const maxSnapshots = 1000

// insertSnapshot writes that a snapshot of a sandbox is wanted, whose row the caller holds.
func insertSnapshot(ctx context.Context, q *db.Queries, box record.Sandbox, n record.NewSnapshot) error {
	if n.Purpose != record.PurposeSuspend {
		count, err := q.CountSnapshots(ctx, box.ID)
		if err != nil {
			return err
		}
		if count >= maxSnapshots {
			return space.Errorf(space.CodeQuotaExceeded, "the sandbox has %d snapshots, which is the limit: delete some", count)
		}
	}
	if n.Name != "" {
		if _, err := lockQuota(ctx, q, box.Project); err != nil { // names are given by one at a time
			return err
		}
		taken, err := q.SnapshotNamed(ctx, db.SnapshotNamedParams{Project: box.Project, Name: n.Name})
		if err != nil {
			return err
		}
		if taken {
			e := space.Errorf(space.CodeConflict, "the project has a snapshot named %q: delete that one, or choose another name", n.Name)
			e.Field = "name"
			return e
		}
	}
	r := n.Route
	return q.InsertSnapshot(ctx, db.InsertSnapshotParams{
		ID: n.ID, Project: box.Project, Sandbox: box.ID, Execution: r.Execution, Epoch: int64(r.Epoch), PlacementKind: string(r.Placement.Kind),
		Node: r.Placement.Node, PodUid: r.Placement.PodUID, Template: box.Template, Kind: string(n.Kind), Purpose: string(n.Purpose), Name: n.Name,
		Vcpus: int32(box.Shape.VCPUs), MemoryBytes: int64(box.Shape.MemoryBytes), DiskBytes: int64(box.Shape.DiskBytes),
	})
}

// holdSnapshot returns a project's snapshot by id or name, which isn't deleted until the transaction ends.
func holdSnapshot(ctx context.Context, q *db.Queries, project, ref string) (record.Snapshot, error) {
	r, err := q.Snapshot(ctx, db.SnapshotParams{Project: project, Ref: ref})
	if err != nil {
		return record.Snapshot{}, missing(err, "snapshot")
	}
	held, err := q.HoldSnapshots(ctx, []string{r.ID})
	if err == nil && len(held) == 0 {
		err = space.Errorf(space.CodeNotFound, "the snapshot does not exist")
	}
	return snapshot(r), err
}

// deleteAutomaticSnapshots lets go what goes with sandboxes. What another one is still to be loaded from stays until it was.
func deleteAutomaticSnapshots(ctx context.Context, q *db.Queries, sandboxes ...string) error {
	ids, err := q.AutomaticSnapshots(ctx, sandboxes)
	if err != nil || len(ids) == 0 {
		return err
	}
	if ids, err = q.HoldSnapshots(ctx, ids); err != nil {
		return err
	}
	_, err = q.DeleteSnapshots(ctx, ids)
	return err
}

// Snapshot returns a project's snapshot by id or name; not_found if it has none.
func (s *Store) Snapshot(ctx context.Context, project, ref string) (record.Snapshot, error) {
	var out record.Snapshot
	err := s.read(ctx, "read snapshot "+ref, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Snapshot(ctx, db.SnapshotParams{Project: project, Ref: ref})
		out = snapshot(r)
		return missing(err, "snapshot")
	})
	return out, err
}

// Snapshots returns up to limit snapshots of a project behind a position, newest first; of one sandbox, if that isn't empty.
func (s *Store) Snapshots(ctx context.Context, project, sandbox string, after record.Position, limit int) ([]record.Snapshot, error) {
	var out []record.Snapshot
	err := s.read(ctx, "list snapshots", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Snapshots(ctx, db.SnapshotsParams{
			Project: project, Sandbox: sandbox, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit),
		})
		for _, r := range rows {
			out = append(out, snapshot(db.SnapshotRow(r)))
		}
		return err
	})
	return out, err
}

// DeleteSnapshot writes that a project's snapshot is to go, and returns the node that must act. Conflict while something needs it.
func (s *Store) DeleteSnapshot(ctx context.Context, project, ref string) (node string, err error) {
	err = s.write(ctx, "delete snapshot", ref, func(ctx context.Context, q *db.Queries) error {
		n, err := holdSnapshot(ctx, q, project, ref)
		if err != nil {
			return err
		}
		node = n.Route.Placement.Node
		return deleteUnneeded(ctx, q, n.ID)
	})
	return node, err
}

// deleteTries bounds how often a snapshot is looked at that is needed no more when it's asked by whom.
const deleteTries = 3

// deleteUnneeded deletes a snapshot that the caller holds. Conflict with who needs it, if somebody does.
func deleteUnneeded(ctx context.Context, q *db.Queries, id string) error {
	for range deleteTries {
		gone, err := q.DeleteSnapshots(ctx, []string{id})
		if err != nil || len(gone) > 0 {
			return err
		}
		users, err := q.SnapshotUser(ctx, id)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return space.Errorf(space.CodeConflict, "sandbox %s needs the snapshot: it is suspended into it, or is being made of it", users[0])
		}
	}
	return space.Errorf(space.CodeConflict, "the snapshot was needed until a moment ago: try again")
}

func snapshot(r db.SnapshotRow) record.Snapshot {
	out := record.Snapshot{
		ID: r.ID, Project: r.Project, Name: r.Name, Route: route(r.Sandbox, r.Execution, r.Epoch, r.PlacementKind, r.Node, r.PodUid), Template: r.Template,
		TemplateName: r.TemplateName, Kind: record.SnapshotKind(r.Kind), Purpose: record.SnapshotPurpose(r.Purpose),
		Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes), Deleted: r.DeletedAt != nil, CreatedAt: r.CreatedAt, GivenUp: r.GivenUp,
	}
	out.Status = record.SnapshotStatus{
		State: record.SnapshotMaking, Error: failure(r.ErrorCode, r.ErrorMessage), Digest: text(r.Digest), Parent: text(r.Parent), Driver: text(r.Driver),
		Version: text(r.Version), CPU: text(r.Cpu),
	}
	if r.State != nil {
		out.Status.State = shown(record.SnapshotState(*r.State), out.Status)
		out.Status.Pause, out.Status.Bytes = time.Duration(*r.PauseMicros)*time.Microsecond, uint64(*r.Bytes)
	}
	if r.TakenAt != nil {
		out.Status.At = *r.TakenAt
	}
	return out
}

// shown is the state of a snapshot that nobody has deleted. One of which nothing is left is so for what it was before: it couldn't be made, or was ready and is lost. One
// that is ready and with which something is wrong is damaged.
func shown(is record.SnapshotState, s record.SnapshotStatus) record.SnapshotState {
	switch {
	case is == record.SnapshotReady && s.Error != nil:
		return record.SnapshotDamaged
	case is != record.SnapshotGone:
		return is
	case s.Digest == "":
		return record.SnapshotFailed
	default:
		return record.SnapshotLost
	}
}
