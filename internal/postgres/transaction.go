package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/space-platform/space/internal/telemetry"
)

// transaction sends its beginning with its first statement, and its end with those that nobody waits for: a client waits for the server as often as it
// must know something, not as often as it says something. One that isn't committed costs nothing that was said before.
type transaction struct {
	conn  *pgxpool.Conn
	doing string      // one of a few texts
	said  []statement // what goes to the server with the next one
	final bool        // the end goes with the statement that was sent
	ended bool        // the server has said so
}

type statement struct {
	sql  string
	args []any
}

type (
	laterKey struct{}
	lastKey  struct{}
)

// later has a statement go to the server with the next one, or with the commit. Its result isn't known, and its failure is that of the one it goes with.
func later(ctx context.Context) context.Context { return context.WithValue(ctx, laterKey{}, true) }

// last has the commit go to the server with a statement, after which there's none. It reads one row at most.
func last(ctx context.Context) context.Context { return context.WithValue(ctx, lastKey{}, true) }

func has(ctx context.Context, key any) bool { return ctx.Value(key) != nil }

var commits = telemetry.NewCounter("space_db_commits_total", "Transactions that were to be committed. Reads are none.", "doing")

// transact runs do in a transaction.
func (s *Store) transact(ctx context.Context, doing string, do func(*transaction) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // which closes it in the middle of a transaction
	t := &transaction{conn: conn, doing: doing, said: []statement{{sql: "begin"}}}
	if err = do(t); err == nil {
		err = t.commit(ctx)
	}
	if err != nil {
		t.rollBack(ctx)
	}
	return err
}

// rollBack leaves the connection to others. One that is broken says so by what was done before.
func (t *transaction) rollBack(ctx context.Context) {
	if c := t.conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = t.conn.Exec(ctx, "rollback")
	}
}

func (t *transaction) commit(ctx context.Context) error {
	if t.ended {
		return nil
	}
	if t.final {
		return pgx.ErrTxCommitRollback // the last statement failed, and who said it doesn't say so
	}
	commits.WithLabelValues(t.doing).Inc()
	results, err := t.send(ctx, "commit", nil)
	if err != nil {
		return err
	}
	t.final = true
	return t.end(results, nil)
}

// send sends a statement after those that wait. Their results have been read, its own is the next.
func (t *transaction) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	if t.final {
		return nil, errors.New("a statement after the last one of its transaction")
	}
	b := new(pgx.Batch)
	for _, s := range t.said {
		b.Queue(s.sql, s.args...)
	}
	b.Queue(sql, args...)
	if has(ctx, lastKey{}) {
		commits.WithLabelValues(t.doing).Inc()
		t.final = true
		b.Queue("commit")
	}
	before := len(t.said)
	t.said = nil
	results := t.conn.SendBatch(ctx, b)
	for range before {
		if _, err := results.Exec(); err != nil {
			return nil, cmp.Or(err, results.Close())
		}
	}
	return results, nil
}

// end reads the commit, if it's there, and what a statement's failure leaves of it.
func (t *transaction) end(results pgx.BatchResults, failed error) error {
	if failed == nil && t.final {
		var tag pgconn.CommandTag
		if tag, failed = results.Exec(); failed == nil && tag.String() == "ROLLBACK" {
			failed = pgx.ErrTxCommitRollback
		}
		t.ended = failed == nil
	}
	return cmp.Or(failed, results.Close())
}

// Exec implements db.DBTX.
func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if has(ctx, laterKey{}) {
		t.said = append(t.said, statement{sql, args})
		return pgconn.CommandTag{}, nil
	}
	results, err := t.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, t.end(results, err)
}

// QueryRow implements db.DBTX.
func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := t.send(ctx, sql, args)
	return oneRow{t, results, err}
}

type oneRow struct {
	of      *transaction
	results pgx.BatchResults
	err     error
}

// Scan implements pgx.Row.
func (r oneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.of.end(r.results, r.results.QueryRow().Scan(into...))
}

// Query implements db.DBTX. Of many rows it isn't known when the last has been read, so it can't be the last.
func (t *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if has(ctx, lastKey{}) {
		return nil, errors.New("a statement of many rows can't take the end of its transaction along")
	}
	results, err := t.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, cmp.Or(err, results.Close())
	}
	return manyRows{rows, results}, nil
}

// manyRows leave their connection to the next statement when they're closed.
type manyRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close implements pgx.Rows. What went wrong is known to Err.
func (r manyRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}
