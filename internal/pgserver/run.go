package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// maxOutput bounds how much of a program's output an error repeats.
const maxOutput = 4 << 10

// environment is all that the server's programs are told; messages in English so that logs can be searched.
var environment = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}

// Exec turns this process into the server. It returns only with an error.
func (s Server) Exec() error {
	path := filepath.Join(s.Bin, "postgres")
	if err := os.Chdir(s.Data); err != nil {
		return fmt.Errorf("run PostgreSQL: %w", err)
	}
	if err := syscall.Exec(path, []string{path, "-D", s.Data}, environment); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

func (s Server) initdb(ctx context.Context, dir string) error {
	return s.command(ctx, "", "initdb", "--pgdata", dir, "--username", superuser, "--auth", "peer",
		"--encoding", "UTF8", "--locale", "C.UTF-8", "--data-checksums", "--no-instructions")
}

// single runs statements in the server's single-user mode, where each line is one statement and the first error ends it.
func (s Server) single(ctx context.Context, dir string, statements ...string) error {
	return s.command(ctx, strings.Join(statements, "\n")+"\n", "postgres", "--single", "-D", dir, "-c", "exit_on_error=on", superuser)
}

func (s Server) command(ctx context.Context, stdin, name string, args ...string) error {
	c := exec.CommandContext(ctx, filepath.Join(s.Bin, name), args...)
	c.Stdin = strings.NewReader(stdin)
	c.Env = environment
	c.Dir = "/"
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", name, err, out[max(0, len(out)-maxOutput):])
	}
	return nil
}
