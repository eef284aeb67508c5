package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	return pool, nil
}

func poolConfig(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil { // which repeats parts of the address, and so perhaps of the password
		return nil, errors.New("the database's address can't be read: it is like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full")
	}
	cfg.MaxConns = maxConns
	cfg.AfterConnect = checkDurability
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	for name, limit := range map[string]time.Duration{
		"statement_timeout":                   statementTimeout,
		"lock_timeout":                        lockTimeout,
		"idle_in_transaction_session_timeout": statementTimeout,
	} {
		cfg.ConnConfig.RuntimeParams[name] = fmt.Sprint(limit.Milliseconds())
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "space"
	// A connection keeps the plan of a statement that it made when tables were empty, until they're analyzed: one that reads a table of one page
	// whole is ruinous when it has grown. What is asked all the time has an index.
	cfg.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	// What is asked for is in memory, or on a disk that seeks in no time: an index costs no more than its pages.
	cfg.ConnConfig.RuntimeParams["random_page_cost"] = "1.1"
	// A statement is over before a second process has started to help with it.
	cfg.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = "0"
	return cfg, nil
}

// reach waits until the server answers. PostgreSQL offers no event for "ready", so it asks.
func reach(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		err := pool.Ping(ctx)
		if err == nil || hopeless(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(connectAgain):
		}
	}
}

var errNotDurable = errors.New("what the server commits can be lost")

// hopeless reports whether waiting doesn't help: the server doesn't keep what it commits, or knows no such user, password or
// database.
func hopeless(err error) bool {
	var server *pgconn.PgError
	return errors.Is(err, errNotDurable) || errors.As(err, &server) && (strings.HasPrefix(server.Code, "28") || server.Code == "3D000")
}

// checkDurability refuses settings under which a commit can be lost with the power. Each connection is asked: a server can be told anew,
// and so can a user or a database of it.
func checkDurability(ctx context.Context, c *pgx.Conn) error {
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := c.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("read the setting %s: %w", name, err)
		}
		if value == "off" {
			return fmt.Errorf("%w: it runs with %s off; turn it on", errNotDurable, name)
		}
	}
	return nil
}
