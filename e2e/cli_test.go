//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommandLine runs the plays in testdata against the platform under test. What they make they remove.
// playsLimit bounds all plays of a test: one that hangs tells what it was at.
const playsLimit = 8 * time.Minute

func TestCommandLine(t *testing.T) { play(t, plays(t)...) }

// play runs plays.
func play(t *testing.T, files ...string) {
	t.Helper()
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: files, RequireExplicitExec: true, Deadline: time.Now().Add(playsLimit),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(platform.binary)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("SPACE_CONFIG", filepath.Join(config, "space", "config.toml"))
			e.Setenv("SPACE_INSTANCE", platform.instance.Name)
			e.Setenv("URL", platform.url)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sandbox": func(ts *testscript.TestScript, _ bool, args []string) { // sandbox VAR: VAR is a sandbox of mini that lives as long as the play
				ts.Check(ts.Exec("space", "sandbox", "create", "mini"))
				id := strings.TrimSpace(ts.ReadFile("stdout"))
				ts.Setenv(args[0], id)
				ts.Defer(func() { exec.Command(platform.binary, "sandbox", "rm", id, "--instance", platform.instance.Name).Run() })
			},
			"keep": func(ts *testscript.TestScript, _ bool, args []string) { // keep VAR: VAR is what the last exec printed
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
			},
			"field": func(ts *testscript.TestScript, _ bool, args []string) { // field VAR LINE COLUMN: of the table that the last exec printed, from 1
				ts.Setenv(args[0], field(ts, args[1], args[2]))
			},
			"status": func(ts *testscript.TestScript, _ bool, args []string) { // status N CMD…: CMD ends with exit code N
				var exit *exec.ExitError
				err, got := ts.Exec(args[1], args[2:]...), 0
				if errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if strconv.Itoa(got) != args[0] {
					ts.Fatalf("exit code %d, want %s", got, args[0])
				}
			},
		},
	})
}

// plays are all, in the order of their names.
func plays(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/cli_*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plays: %v", err)
	}
	return files
}

// field is a word of the last output; no column of a table has blanks before the ones that are asked for.
func field(ts *testscript.TestScript, line, column string) string {
	l, err := strconv.Atoi(line)
	ts.Check(err)
	c, err := strconv.Atoi(column)
	ts.Check(err)
	lines := strings.Split(ts.ReadFile("stdout"), "\n")
	if l > len(lines) || c > len(strings.Fields(lines[l-1])) {
		ts.Fatalf("the output has no word %d in line %d", c, l)
	}
	return strings.Fields(lines[l-1])[c-1]
}
