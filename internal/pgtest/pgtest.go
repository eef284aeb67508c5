package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/space-platform/space/internal/postgres"
)

// migrated is the database that each test's is a copy of.
const migrated = "migrated"

// shared is the test binary's one server. It's started by the first test that needs it and stopped by Run.
var shared struct {
	once   sync.Once
	server *server
	err    error
	made   atomic.Int64
	copies sync.Mutex // PostgreSQL refuses two copies of one database at a time
}

// Run runs the tests of a package and then stops the server. Call it from TestMain.
func Run(m *testing.M) int {
	defer func() {
		if shared.server != nil {
			shared.server.stop()
		}
	}()
	return m.Run()
}

// URL returns the address of a fresh, migrated database, which is dropped when the test has ended.
func URL(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = prepare() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := fmt.Sprintf("test_%d", shared.made.Add(1))
	shared.copies.Lock()
	defer shared.copies.Unlock()
	// Copied as files, not through the log: less work, since nobody else writes meanwhile.
	if err := shared.server.exec("CREATE DATABASE " + name + " TEMPLATE " + migrated + " STRATEGY FILE_COPY"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.server.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return shared.server.url(name)
}

// Pool returns a pool on a fresh, migrated database. Both end with the test.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Empty returns the address of a database without a schema, for the tests of migrations.
func Empty(t testing.TB) string {
	t.Helper()
	url := URL(t)
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
		t.Fatal(err)
	}
	return url
}

// prepare starts the server and migrates the database that is copied.
func prepare() (*server, error) {
	s, err := start("", 0)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(); err != nil {
		log, _ := os.ReadFile(s.dir + "/log") // an unreadable log adds nothing to the error
		s.stop()
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return s, nil
}

func (s *server) migrate() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	pool, err := postgres.Open(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE DATABASE "+migrated); err != nil {
		return err
	}
	target, err := postgres.Open(ctx, s.url(migrated))
	if err != nil {
		return err
	}
	defer target.Close()
	return postgres.Migrate(ctx, target)
}

// await waits until the server answers.
func (s *server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	pool, err := postgres.Open(ctx, s.url("postgres"))
	if err == nil {
		pool.Close()
	}
	return err
}

// exec runs a statement that concerns whole databases.
func (s *server) exec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
