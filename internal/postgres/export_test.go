package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/postgres/db"
)

// What tests of transactions say statements with.
var (
	Later = later
	Last  = last
)

// Transact runs do in a transaction of the store's.
func (s *Store) Transact(ctx context.Context, do func(db.DBTX) error) error {
	return s.transact(ctx, "test", func(t *transaction) error { return do(t) })
}

// WaitingDeletions is how many wait for others to be deleted.
func (s *Store) WaitingDeletions() int {
	s.deletions.mu.Lock()
	defer s.deletions.mu.Unlock()
	return len(s.deletions.waiting[""])
}

// Joint is what tests of joint queries ask with.
type Joint struct{ *joint }

// NewJoint returns one for so many queries.
func NewJoint(ctx context.Context, queries int, send func(context.Context, *pgx.Batch) pgx.BatchResults) *Joint {
	return &Joint{newJoint(ctx, queries, send)}
}

// Close ends it.
func (j *Joint) Close() error { return j.close() }
