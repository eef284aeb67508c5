package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Network returns the address of an empty database on a server of its own that listens on loopback and wants a password, as somebody
// else's would. It ends with the test. set changes a setting of the server's, and returns when new
// connections have it.
func Network(t testing.TB, password string) (url string, set func(name, value string)) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(fmt.Sprintf("-%d", port), port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	if err := s.await(); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE ROLE app LOGIN PASSWORD '" + password + "'", "CREATE DATABASE app OWNER app"} {
		if err := s.exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("postgres://app:%s@127.0.0.1:%d/app?sslmode=disable", password, port), func(name, value string) {
		t.Helper()
		if err := s.set(t.Context(), name, value); err != nil {
			t.Fatalf("set %s to %s: %v", name, value, err)
		}
	}
}

// set changes a setting and waits until a new connection has it: the server reads its configuration in its own time.
func (s *server) set(ctx context.Context, name, value string) error {
	for _, statement := range []string{"ALTER SYSTEM SET " + name + " = " + value, "SELECT pg_reload_conf()"} {
		if err := s.exec(statement); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		var got string
		conn, err := pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			err = errors.Join(conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&got), conn.Close(ctx))
		}
		if err != nil || got == value {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it's %s still: %w", got, ctx.Err())
		case <-look.C:
		}
	}
}

// freePort is a port that nobody listens on right now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
