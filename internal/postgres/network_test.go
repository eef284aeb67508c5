package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

const password = "canary-7f3a"

// TestNetworkDatabase uses a PostgreSQL that listens on TCP and wants a password, and then turns each of the three settings off without which
// commits may be lost.
func TestNetworkDatabase(t *testing.T) {
	address, set := pgtest.Network(t, password)
	pool, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.New(pool).EnsureProject(t.Context(), "default", "default"); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]string{
		"password": strings.Replace(address, password, "wrong-"+password, 1),
		"user":     strings.Replace(address, "app:", "nobody:", 1),
		"database": strings.Replace(address, "/app?", "/nothing?", 1),
		"port":     "postgres://app:" + password + "@127.0.0.1:1/app",
		"form":     "postgres://app:" + password + "%zz@host:x/app",
		"key":      "host=127.0.0.1 password=" + password + " sslmode=perhaps",
	} {
		refused(t, name, wrong, "")
	}
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		set(setting, "off")
		refused(t, setting, address, setting+" off")
		set(setting, "on")
	}
	again, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// refused opens a database that can't be used: the error comes soon, says why, and doesn't repeat the password.
func refused(t *testing.T, name, address, why string) {
	t.Helper()
	limit := time.Minute
	if name == "port" { // a server that isn't there may be about to start: it's tried until the end
		limit = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pool, err := postgres.Open(ctx, address)
	if err == nil {
		pool.Close()
		t.Errorf("%s: opened", name)
		return
	}
	if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), url.QueryEscape(password)) {
		t.Errorf("%s: the error has the password: %v", name, err)
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want %q", name, err, why)
	}
	if ctx.Err() != nil && name != "port" {
		t.Errorf("%s: tried until the end: %v", name, err)
	}
}
