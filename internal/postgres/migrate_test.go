package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

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

// TestMigrationsMayTakeLonger has a statement of a migration take longer than one of a request may: a large table isn't changed in that time.
func TestMigrationsMayTakeLonger(t *testing.T) {
	usual, err := postgres.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer usual.Close()
	cfg := usual.Config()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "500"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, statement := range []string{
		"CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6); END'",
		"CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION slow()",
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), "CREATE VIEW v AS SELECT 1"); err == nil {
		t.Fatal("the statement isn't slow")
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Error(err)
	}
}
