package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/space-platform/space/internal/postgres/db"
)

// writeAlone runs do, which makes one statement, in one transaction. Its begin and its end go to the server with it, so that a client that waits for it
// waits once.
func (s *Store) writeAlone(ctx context.Context, doing string, do func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	commits.Inc()
	return explain(doing, do(ctx, db.New(alone{s.pool})))
}

// alone gives each statement a transaction of its own. One that fails costs its connection, which isn't used again in the middle of a transaction.
type alone struct{ pool *pgxpool.Pool }

// send sends a statement between the beginning and the end of a transaction. The first result has been read.
func (a alone) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	b := new(pgx.Batch)
	b.Queue("begin")
	b.Queue(sql, args...)
	b.Queue("commit")
	results := a.pool.SendBatch(ctx, b)
	if _, err := results.Exec(); err != nil {
		return nil, cmp.Or(err, results.Close())
	}
	return results, nil
}

// end reads the transaction's end, unless the statement has failed.
func end(results pgx.BatchResults, failed error) error {
	if failed == nil || errors.Is(failed, pgx.ErrNoRows) {
		if _, err := results.Exec(); err != nil {
			failed = err
		}
	}
	return cmp.Or(failed, results.Close())
}

// Exec implements db.DBTX.
func (a alone) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := a.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, end(results, err)
}

// QueryRow implements db.DBTX.
func (a alone) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := a.send(ctx, sql, args)
	return aloneRow{results, err}
}

type aloneRow struct {
	results pgx.BatchResults
	err     error
}

// Scan implements pgx.Row.
func (r aloneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	return end(r.results, r.results.QueryRow().Scan(into...))
}

// Query would leave the transaction open for as long as its rows are read.
func (alone) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("a statement of many rows can't be alone in its transaction")
}
