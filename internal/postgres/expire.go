package postgres

import (
	"context"

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
