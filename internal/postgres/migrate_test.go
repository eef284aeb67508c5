package postgres_test

import (
	"sync"
	"testing"

	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

// TestMigrateFromSeveralProcesses starts several control planes at once on an empty database: one migrates, the others wait for it.
func TestMigrateFromSeveralProcesses(t *testing.T) {
	url := pgtest.Empty(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			pool, err := postgres.Open(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if err := postgres.Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := postgres.New(pool).EnsureProject(t.Context(), "default", "default"); err != nil {
		t.Fatal(err)
	}
}
