package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/postgres/db"
)

// joint sends queries that are asked by as many goroutines at once over one connection when all have asked: the server is waited for once. Their rows are read in
// the order in which they came, so each must read its own to the end.
type joint struct {
	db.DBTX // only Query is for it

	ctx     context.Context // of all
	send    func(context.Context, *pgx.Batch) pgx.BatchResults
	mu      sync.Mutex // guards what follows until all have asked
	batch   pgx.Batch
	turns   []chan struct{} // each closed when a query's rows may be read
	results pgx.BatchResults
	all     chan struct{} // closed when all have asked
}

// newJoint returns one for so many queries, each of which must come. ctx must last until it's closed.
func newJoint(ctx context.Context, queries int, send func(context.Context, *pgx.Batch) pgx.BatchResults) *joint {
	j := &joint{ctx: ctx, send: send, all: make(chan struct{})}
	for range queries + 1 { // the last turn is nobody's
		j.turns = append(j.turns, make(chan struct{}))
	}
	return j
}

// enter adds a query and returns its number.
func (j *joint) enter(sql string, args []any) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.batch.Len()
	j.batch.Queue(sql, args...)
	if n+2 == len(j.turns) {
		j.results = j.send(j.ctx, &j.batch)
		close(j.all)
		close(j.turns[0])
	}
	return n
}

// Query implements db.DBTX.
func (j *joint) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	n := j.enter(sql, args)
	select {
	case <-j.turns[n]:
	case <-j.ctx.Done():
		return nil, j.ctx.Err()
	}
	rows, err := j.results.Query()
	if err != nil {
		j.next(n)
		return nil, err
	}
	return &jointRows{Rows: rows, of: j, n: n}, nil
}

// next gives the turn to the query behind n.
func (j *joint) next(n int) { close(j.turns[n+1]) }

// close ends what was sent. It's called when no goroutine asks or reads any more.
func (j *joint) close() error {
	if j.results == nil {
		return nil
	}
	return j.results.Close()
}

// jointRows pass the turn on when they're closed.
type jointRows struct {
	pgx.Rows
	of   *joint
	n    int
	once sync.Once
}

// Close implements pgx.Rows.
func (r *jointRows) Close() {
	r.Rows.Close()
	r.once.Do(func() { r.of.next(r.n) })
}
