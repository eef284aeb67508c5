package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

// TestJointQueries: whichever comes first, each query gets its own rows, one request brings them all, and the connection can be used again. One that fails takes those
// behind it with it.
func TestJointQueries(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, zero := range []int{-1, 0, 3} {
		var sent atomic.Int32
		j := postgres.NewJoint(t.Context(), 4, func(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
			sent.Add(1)
			return pool.SendBatch(ctx, b)
		})
		var all sync.WaitGroup
		failed := make([]error, 4)
		for n := range 4 {
			all.Go(func() { failed[n] = count(j, n, n == zero) })
		}
		all.Wait()
		cerr := j.Close()
		if sent.Load() != 1 {
			t.Errorf("%d requests were sent", sent.Load())
		}
		if err := errors.Join(failed...); (err != nil || cerr != nil) != (zero >= 0) || zero >= 0 && failed[zero] == nil {
			t.Errorf("with number %d dividing by zero: %v, at the end %v", zero, failed, cerr)
		}
		if n := pool.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections aren't given back", n)
		}
	}
}

// count reads n+1 rows of n, or divides by zero.
func count(j *postgres.Joint, n int, fail bool) error {
	rows, err := j.Query(context.Background(), "SELECT $1::integer / $2::integer FROM generate_series(0, $1)", n, map[bool]int{true: 0, false: 1}[fail])
	if err != nil {
		return err
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	for _, v := range got {
		if v != n || len(got) != n+1 {
			return fmt.Errorf("query %d got %v", n, got)
		}
	}
	return nil
}
