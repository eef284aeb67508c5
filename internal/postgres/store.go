package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/postgres/db"
)

const (
	// readTimeout bounds a read, the wait for a connection included.
	readTimeout = 5 * time.Second
	// writeTimeout bounds a transaction, the wait for a connection included.
	writeTimeout = 10 * time.Second
	// pace is how far turns are apart in which those are served together who ask at the same time.
	pace = 15 * time.Millisecond
)

// Store keeps the control plane's records. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	key      *envelope.Key        // nil: nothing secret can be kept or read
	announce func(project string) // nil: nobody wants to know

	creations gather[creation] // by project and node
	deletions gather[deletion] // all

	operations *looks[record.Operation]
	sandboxes  *looks[record.Sandbox]
	keys       *looks[record.Key] // by hash
}

// New returns a store on a pool, whose owner closes it. The schema must be up to date; see Migrate.
// What is secret in a record can be kept and read only by a store with a key; see Sealing.
func New(pool *pgxpool.Pool) *Store {
	s := &Store{pool: pool}
	s.creations = gather[creation]{most: maxTogether, pace: pace, serve: s.createTogether}
	s.deletions = gather[deletion]{most: maxTogether, pace: pace, serve: s.deleteTogether}
	s.operations = newLooks(s, "operation", all, readOperations)
	s.sandboxes = newLooks(s, "sandbox", all, readSandboxes)
	s.keys = newLooks(s, "key", same, readKey)
	return s
}

// Sealing gives a store the key under which it keeps environments, standard input and signing keys, and returns it. Call it before the store
// is used.
func (s *Store) Sealing(key *envelope.Key) *Store {
	s.key = key
	return s
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, "ping the database", func(ctx context.Context, _ *db.Queries) error { return s.pool.Ping(ctx) })
}

// read runs statements that change nothing.
func (s *Store) read(ctx context.Context, doing string, do func(context.Context, *db.Queries) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return explain(doing, do(ctx, db.New(s.pool)))
}

// write runs do in one transaction: doing, one of a few texts, to what, which may be empty. A caller that gives up doesn't end it: whether it commits would
// be left open for nothing.
func (s *Store) write(ctx context.Context, doing, what string, do func(context.Context, *db.Queries) error) error {
	explained := strings.TrimSuffix(doing+" "+what, " ")
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", explained, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	in := happened{}
	ctx = context.WithValue(ctx, happenedKey{}, in)
	if err := s.transact(ctx, doing, func(t *transaction) error { return do(ctx, db.New(t)) }); err != nil {
		return explain(explained, err)
	}
	s.tell(in)
	return nil
}

// forThis has a statement planned for its parameters each time. Others keep a plan that is good for any.
type forThis struct{ db.DBTX }

// Query implements db.DBTX.
func (f forThis) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return f.DBTX.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}
