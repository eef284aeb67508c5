package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrateTimeout bounds all migrations of one start, and the wait for another process that migrates.
const migrateTimeout = 2 * time.Minute

// Migrate brings the schema up to date; another process that does the same at that moment is waited for. It only goes forward.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(migrateTimeout/time.Second)))
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	conns := stdlib.OpenDB(*patient(pool))
	defer conns.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, conns, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// patient is how migrations connect: as the pool does, but a statement may take as long as all of them, since a large table is rewritten or indexed
// in one; and it's planned as for any large table.
func patient(pool *pgxpool.Pool) *pgx.ConnConfig {
	cfg := pool.Config().ConnConfig
	cfg.RuntimeParams["statement_timeout"] = fmt.Sprint(migrateTimeout.Milliseconds())
	delete(cfg.RuntimeParams, "enable_seqscan")
	return cfg
}
