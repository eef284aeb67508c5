package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
	"github.com/space-platform/space/internal/postgres/db"
)

const insertT = "INSERT INTO t VALUES ($1)"

// TestTransaction: whichever statements go to the server together, all of them are done or none is, a failure is told, and the connection can be used again.
func TestTransaction(t *testing.T) {
	pool := pgtest.Pool(t)
	store := postgres.New(pool)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE t (n integer PRIMARY KEY CHECK (n > 0))"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	later, last := postgres.Later(t.Context()), postgres.Last(t.Context())
	do := func(ctx context.Context, q db.DBTX, n int) error {
		_, err := q.Exec(ctx, insertT, n)
		return err
	}
	for name, c := range map[string]struct {
		do   func(q db.DBTX) error
		want string // the error's SQLSTATE, "" for none, or another error's text
		rows int
	}{
		"nothing":                  {func(db.DBTX) error { return nil }, "", 0},
		"one":                      {func(q db.DBTX) error { return do(t.Context(), q, 1) }, "", 1},
		"all at the end":           {func(q db.DBTX) error { return errors.Join(do(later, q, 1), do(later, q, 2)) }, "", 2},
		"some before":              {func(q db.DBTX) error { return errors.Join(do(later, q, 1), do(t.Context(), q, 2), do(later, q, 3)) }, "", 3},
		"with the end":             {func(q db.DBTX) error { return errors.Join(do(later, q, 1), do(last, q, 2)) }, "", 2},
		"one fails":                {func(q db.DBTX) error { return do(t.Context(), q, 0) }, "23514", 0},
		"a later one fails":        {func(q db.DBTX) error { return errors.Join(do(later, q, 1), do(later, q, 0), do(later, q, 2)) }, "23514", 0},
		"one before another fails": {func(q db.DBTX) error { return errors.Join(do(later, q, 0), do(t.Context(), q, 1)) }, "23514", 0},
		"the last fails":           {func(q db.DBTX) error { return errors.Join(do(later, q, 1), do(last, q, 0)) }, "23514", 0},
		"one fails, and nobody minds": {func(q db.DBTX) error {
			do(t.Context(), q, 0)
			return do(later, q, 1)
		}, "25P02", 0},
		"one fails, and that was all": {func(q db.DBTX) error {
			do(t.Context(), q, 0)
			return nil
		}, pgx.ErrTxCommitRollback.Error(), 0},
		"the last fails, and nobody minds": {func(q db.DBTX) error {
			do(last, q, 0)
			return nil
		}, pgx.ErrTxCommitRollback.Error(), 0},
		"one behind the last": {func(q db.DBTX) error { return errors.Join(do(last, q, 1), do(t.Context(), q, 2)) }, "a statement after the last one of its transaction", 1},
		"many rows that fail": {func(q db.DBTX) error {
			rows, err := q.Query(t.Context(), "INSERT INTO t VALUES (0) RETURNING n")
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			return err
		}, "23514", 0},
		"many rows of what isn't": {func(q db.DBTX) error {
			rows, err := q.Query(t.Context(), "SELECT n FROM nothing")
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		}, "42P01", 0},
		"refused before the first": {func(db.DBTX) error { return refused }, "refused", 0},
		"refused before it's sent": {func(q db.DBTX) error { return errors.Join(do(later, q, 1), refused) }, "refused", 0},
		"refused":                  {func(q db.DBTX) error { return errors.Join(do(t.Context(), q, 1), refused) }, "refused", 0},
		"a row":                    {func(q db.DBTX) error { return scan(q, last, "INSERT INTO t VALUES (7) RETURNING n", 7) }, "", 1},
		"no row":                   {func(q db.DBTX) error { return scan(q, t.Context(), "SELECT n FROM t", 0) }, pgx.ErrNoRows.Error(), 0},
		"no row at the end":        {func(q db.DBTX) error { return scan(q, last, "SELECT n FROM t", 0) }, pgx.ErrNoRows.Error(), 0},
		"a row after others":       {func(q db.DBTX) error { return errors.Join(do(later, q, 3), scan(q, t.Context(), "SELECT n FROM t", 3)) }, "", 1},
		"a row that fails":         {func(q db.DBTX) error { return scan(q, t.Context(), "INSERT INTO t VALUES (0) RETURNING n", 0) }, "23514", 0},
		"rows": {func(q db.DBTX) error {
			err := errors.Join(do(later, q, 1), do(later, q, 2))
			rows, failed := q.Query(t.Context(), "SELECT n FROM t")
			if failed != nil {
				return failed
			}
			all, failed := pgx.CollectRows(rows, pgx.RowTo[int])
			if len(all) != 2 {
				t.Errorf("read %v", all)
			}
			return errors.Join(err, failed, do(t.Context(), q, 3))
		}, "", 3},
		"rows at the end": {func(q db.DBTX) error {
			_, err := q.Query(last, "SELECT n FROM t")
			return err
		}, "a statement of many rows can't take the end of its transaction along", 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := pool.Stat().NewConnsCount()
			if got := state(store.Transact(t.Context(), c.do)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var n int
			if err := pool.QueryRow(t.Context(), "WITH gone AS (DELETE FROM t RETURNING n) SELECT count(*) FROM gone").Scan(&n); err != nil || n != c.rows {
				t.Errorf("%d rows are there, %v; want %d", n, err, c.rows)
			}
			if more := pool.Stat().NewConnsCount() - before; more > 0 {
				t.Errorf("it took %d new connections", more)
			}
		})
	}
}

func scan(q db.DBTX, ctx context.Context, sql string, want int) error {
	var n int
	if err := q.QueryRow(ctx, sql).Scan(&n); err != nil {
		return err
	}
	if n != want {
		return errors.New("another row")
	}
	return nil
}

// state is an error's SQLSTATE, or its text.
func state(err error) string {
	var server *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &server):
		return server.Code
	}
	return err.Error()
}
