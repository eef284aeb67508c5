package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// SnapshotOwners returns up to limit sandboxes that may have snapshots that aren't needed, in their order behind one; of all projects if that's empty.
func (s *Store) SnapshotOwners(ctx context.Context, project, after string, limit int) ([]record.SnapshotOwner, error) {
	var out []record.SnapshotOwner
	err := s.read(ctx, "list what has snapshots", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.SnapshotOwners(ctx, db.SnapshotOwnersParams{Project: project, After: after, MaxRows: int32(limit)})
		if err != nil {
			return err
		}
		for _, r := range rows {
			rolling, err := readRolling(r.Rolling)
			if err != nil {
				return err
			}
			out = append(out, record.SnapshotOwner{Sandbox: r.Sandbox, Project: r.Project, Deleted: record.Desired(r.Desired) == record.DesiredDeleted, Rolling: rolling})
		}
		return nil
	})
	return out, err
}

// ToRoll returns up to limit sandboxes that are to take a snapshot of themselves at a time, in their order behind one.
func (s *Store) ToRoll(ctx context.Context, now time.Time, after string, limit int) ([]record.SnapshotOwner, error) {
	var out []record.SnapshotOwner
	err := s.read(ctx, "list what is to take snapshots of itself", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.SandboxesToRoll(ctx, db.SandboxesToRollParams{Now: now, After: after, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, record.SnapshotOwner{Sandbox: r.ID, Project: r.Project})
		}
		return err
	})
	return out, err
}

// rolled says when a sandbox took snapshots of itself last, whose row the caller holds.
func rolled(ctx context.Context, q *db.Queries, sandbox string) (record.Rolled, error) {
	rows, err := q.Rolled(ctx, sandbox)
	if err != nil || len(rows) == 0 { // it takes none
		return record.Rolled{}, err
	}
	return record.Rolled{FullAt: rows[0].FullAt, DiskAt: rows[0].DiskAt, Making: rows[0].Making}, nil
}

func readRolling(b []byte) (*record.Rolling, error) {
	var out *record.Rolling
	if len(b) == 0 {
		return nil, nil
	}
	return out, json.Unmarshal(b, &out)
}

// UnusedSnapshots returns those of some snapshots that nothing needs at the moment.
func (s *Store) UnusedSnapshots(ctx context.Context, ids []string) ([]string, error) {
	var out []string
	err := s.read(ctx, "find what needs snapshots", func(ctx context.Context, q *db.Queries) error {
		needed, err := q.NeededSnapshots(ctx, ids)
		out = without(ids, needed)
		return err
	})
	return out, err
}

func without(ids, some []string) []string {
	in := map[string]bool{}
	for _, id := range some {
		in[id] = true
	}
	var out []string
	for _, id := range ids {
		if !in[id] {
			out = append(out, id)
		}
	}
	return out
}

// DeleteUnused writes that those of some snapshots are to go that nothing needs, and returns them.
func (s *Store) DeleteUnused(ctx context.Context, ids []string) ([]string, error) {
	var out []string
	err := s.write(ctx, "delete snapshots", "", func(ctx context.Context, q *db.Queries) error {
		out = nil
		held, err := q.HoldSnapshots(ctx, ids)
		if err != nil || len(held) == 0 {
			return err
		}
		rows, err := q.DeleteSnapshots(ctx, held)
		for _, r := range rows {
			out = append(out, r.ID)
		}
		return err
	})
	return out, err
}
