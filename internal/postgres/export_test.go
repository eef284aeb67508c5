package postgres

import (
	"context"

	"github.com/space-platform/space/internal/postgres/db"
)

// What tests of transactions say statements with.
var (
	Later = later
	Last  = last
)

// Transact runs do in a transaction of the store's.
func (s *Store) Transact(ctx context.Context, do func(db.DBTX) error) error {
	return s.transact(ctx, func(t *transaction) error { return do(t) })
}
