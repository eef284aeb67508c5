package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/postgres"
)

const (
	// databaseStart is how long the control plane waits for a PostgreSQL that starts, or recovers after a crash.
	databaseStart = time.Minute
	// databaseTry is how long 'space up' tries an existing one before it says that it can't be used.
	databaseTry = 15 * time.Second
	// maxDatabaseURL bounds what is read from standard input.
	maxDatabaseURL = 8 << 10
)

const (
	databaseFlagName    = "database-url"
	databaseEnvironment = "SPACE_DATABASE_URL"
)

// databaseFlag adds --database-url and returns the address that was given, if one was. An address on the command line may hold a
// password, and the process list shows command lines: the program starts itself anew with the address in the environment, which only its
// user and root can read.
func databaseFlag(c *cobra.Command) func() (string, error) {
	var url string
	c.Flags().StringVar(&url, databaseFlagName, "", "use an existing PostgreSQL; - reads the address from standard input ("+databaseEnvironment+")")
	return func() (string, error) {
		defer os.Unsetenv(databaseEnvironment) // no other program needs it
		switch url {
		case "":
			return os.Getenv(databaseEnvironment), nil
		case "-":
			line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxDatabaseURL)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return "", fmt.Errorf("read the database's address from standard input: %w", err)
			}
			return strings.TrimSpace(line), nil
		default:
			return "", hide(url)
		}
	}
}

// hide starts this program anew without the address on its command line. It returns only with an error.
func hide(url string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, databaseEnvironment+"=") })
	err = syscall.Exec(self, withoutFlag(os.Args, databaseFlagName), append(env, databaseEnvironment+"="+url))
	return fmt.Errorf("start this program anew: %w", err)
}

// withoutFlag takes a flag with its value off a command line.
func withoutFlag(args []string, flag string) []string {
	var out []string
	for k := 0; k < len(args); k++ {
		switch {
		case args[k] == "--":
			return append(out, args[k:]...)
		case args[k] == "--"+flag:
			k++ // its value
		case !strings.HasPrefix(args[k], "--"+flag+"="):
			out = append(out, args[k])
		}
	}
	return out
}

// openDatabase connects to the instance's database and brings its schema up to date.
func openDatabase(ctx context.Context, i instance.Instance, c instance.Config) (*pgxpool.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseStart)
	defer cancel()
	url := c.DatabaseURL
	if url == "" {
		url = fmt.Sprintf("host=%s dbname=space user=space", i.RoleRunDir(instance.Postgres))
	}
	pool, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// adoptDatabase makes an existing PostgreSQL the instance's, after it has been tried. It reports whether that is another than before.
// Without an address all stays as it is.
func adoptDatabase(ctx context.Context, i instance.Instance, url string) (note string, changed bool, err error) {
	if url == "" {
		if i.ExternalDatabase() {
			return "the one that " + i.DatabaseFile() + " names", false, nil
		}
		return "a private one", false, nil
	}
	if _, err := os.Stat(filepath.Join(i.RoleDir(instance.Postgres), "data")); !errors.Is(err, fs.ErrNotExist) {
		return "", false, cli.ErrorWithHint("conflict", "use another --instance, or remove this one with 'space purge'",
			"platform %s has records in a database of its own, and they aren't moved", i.Name)
	}
	where, err := tryDatabase(ctx, url)
	if err != nil {
		return "", false, err
	}
	changed, err = instance.SetDatabase(i, url)
	return where, changed, err
}

// tryDatabase connects to a PostgreSQL and returns where it is, without the password.
func tryDatabase(ctx context.Context, url string) (where string, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTry)
	defer cancel()
	pool, err := postgres.Open(ctx, url)
	if err != nil {
		return "", cli.ErrorWithHint("unavailable", "see docs/operations.md for what the database must have", "the database can't be used: %v", err)
	}
	defer pool.Close()
	c := pool.Config().ConnConfig
	return describe(c), nil
}

func describe(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s on %s:%d", c.Database, c.Host, c.Port)
}
