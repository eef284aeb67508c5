package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxConns bounds the pool: a request holds a connection only for its few statements.
	maxConns = 16
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 5 * time.Second
	// connectAgain is the pause between attempts while the server starts.
	connectAgain = 100 * time.Millisecond
	// statementTimeout ends a statement at the server, should its client have given up without being able to say so.
	statementTimeout = 10 * time.Second
	// lockTimeout ends a wait for another transaction.
	lockTimeout = 5 * time.Second
)

// Open connects to the database that a URL or a key=value string names. It tries again until ctx ends, since the server may still be
// starting, and refuses a server that doesn't keep what it says is committed. Close the pool.
func Open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := reach(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := checkDurability(ctx, pool); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

func poolConfig(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	cfg.MaxConns = maxConns
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	for name, limit := range map[string]time.Duration{
		"statement_timeout":                   statementTimeout,
		"lock_timeout":                        lockTimeout,
		"idle_in_transaction_session_timeout": statementTimeout,
	} {
		cfg.ConnConfig.RuntimeParams[name] = fmt.Sprint(limit.Milliseconds())
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "space"
	return cfg, nil
}

// reach waits until the server answers. PostgreSQL offers no event for "ready", so it asks.
func reach(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		err := pool.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(connectAgain):
		}
	}
}

// checkDurability refuses settings under which a commit can be lost with the power.
func checkDurability(ctx context.Context, pool *pgxpool.Pool) error {
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("read the setting %s: %w", name, err)
		}
		if value == "off" {
			return fmt.Errorf("the server runs with %s off: what it commits can be lost; turn it on", name)
		}
	}
	return nil
}
