package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Expiring returns up to limit sandboxes with a deadline, behind one of them, in the order of their deadlines. One whose action isn't possible
// as it is now is left out: a stop of what doesn't run. The zero value is before the first.
func (s *Store) Expiring(ctx context.Context, after record.Expiring, limit int) ([]record.Expiring, error) {
	var out []record.Expiring
	err := s.read(ctx, "list what expires", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.ExpiringSandboxes(ctx, db.ExpiringSandboxesParams{AfterAt: after.Lifetime.Deadline, AfterID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, record.Expiring{ID: r.ID, Project: r.Project, Lifetime: record.Lifetime{Deadline: r.ExpiresAt, OnExpiry: record.Expiry(r.OnExpiry)}})
		}
		return err
	})
	return out, err
}

// Idling returns up to limit sandboxes with which nothing was done for as long as they say at a time, the longest first, behind one of them. One that can't be ended as it
// says is left out, and for a while one whose suspend has failed. The zero value is before the first.
func (s *Store) Idling(ctx context.Context, now time.Time, after record.Idling, limit int) ([]record.Idling, error) {
	var out []record.Idling
	err := s.read(ctx, "list what is idle", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.IdleSandboxes(ctx, db.IdleSandboxesParams{Now: now.Add(-record.ActiveWithin), AfterAt: after.ActiveAt, AfterID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, record.Idling{ID: r.ID, Project: r.Project, ActiveAt: r.ActiveAt, Idle: record.Idle{
				After: time.Duration(r.IdleAfterSeconds) * time.Second, Action: record.IdleAction(r.IdleAction), Egress: r.IdleEgress,
			}})
		}
		return err
	})
	return out, err
}

// Touch writes when something was last done with sandboxes.
func (s *Store) Touch(ctx context.Context, at map[string]time.Time) error {
	return s.touch(ctx, at, false)
}

// TouchSent writes when sandboxes last sent something, of those for which that is activity.
func (s *Store) TouchSent(ctx context.Context, at map[string]time.Time) error {
	return s.touch(ctx, at, true)
}

func (s *Store) touch(ctx context.Context, at map[string]time.Time, sent bool) error {
	p := db.TouchSandboxesParams{Sent: sent}
	for _, id := range slices.Sorted(maps.Keys(at)) { // in one order: two of these at once don't wait for each other
		p.Ids, p.At = append(p.Ids, id), append(p.At, at[id])
	}
	return s.write(ctx, "record what was done with sandboxes", "", func(ctx context.Context, q *db.Queries) error { return q.TouchSandboxes(ctx, p) })
}

// Paused returns up to limit sandboxes of a node that are paused, the longest first. One whose suspend has failed is left out for a while.
func (s *Store) Paused(ctx context.Context, node string, limit int) ([]record.SnapshotOwner, error) {
	var out []record.SnapshotOwner
	err := s.read(ctx, "list what is paused", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.PausedSandboxes(ctx, db.PausedSandboxesParams{Node: node, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, record.SnapshotOwner{Sandbox: r.ID, Project: r.Project})
		}
		return err
	})
	return out, err
}
