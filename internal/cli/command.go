package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// maxStdin is how much a session takes: it's given whole when the session is created.
const maxStdin = 1 << 20

// stdinNotice is after how long of reading stdin people are told.
const stdinNotice = 3 * time.Second

// commandFlags say how a command runs in its sandbox.
type commandFlags struct {
	env     []string
	cwd     string
	user    string
	noStdin bool
	stdin   bool // -i: stdin goes on while the command runs
	tty     bool // -t: run in a terminal
	timeout time.Duration
}

func addCommandFlags(c *cobra.Command) *commandFlags {
	f := &commandFlags{}
	c.Flags().StringArrayVarP(&f.env, "env", "e", nil, "NAME=VALUE for the command; NAME alone takes the value from here")
	c.Flags().StringVarP(&f.cwd, "workdir", "w", "", "absolute path in which to run; the user's home if not given")
	c.Flags().StringVarP(&f.user, "user", "u", "", "user to run as; the template's default if not given")
	c.Flags().BoolVarP(&f.noStdin, "no-stdin", "n", false, "don't read stdin, even if something is piped in")
	c.Flags().BoolVarP(&f.stdin, "interactive", "i", false, "send stdin while the command runs, however long it is")
	c.Flags().BoolVarP(&f.tty, "tty", "t", false, "run in a terminal; implies -i")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "kill the command after this time")
	return f
}

// targetAndCommand wants what to use, and after -- what to run there. Without -- the command can't have flags.
func targetAndCommand(target string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); len(args) < 2 || dash >= 0 && dash != 1 {
			return fmt.Errorf("%s wants %s -- CMD…", cmd.CommandPath(), target)
		}
		return nil
	}
}

// session is what the flags ask for. Its errors say with which code to end.
func (f *commandFlags) session(argv []string, stdin io.Reader, tell io.Writer, getenv func(string) string) (client.SessionCreate, error) {
	s := client.SessionCreate{Argv: &argv}
	if f.cwd != "" {
		s.Cwd = &f.cwd
	}
	if f.user != "" {
		s.User = &f.user
	}
	env, err := f.environment(getenv)
	if err != nil {
		return s, err
	}
	if len(env) > 0 {
		s.Env = &env
	}
	if f.timeout > 0 {
		seconds := max(1, int(f.timeout/time.Second))
		s.TimeoutSeconds = &seconds
	}
	if f.tty {
		s.Tty = &gen.TerminalSize{Rows: 24, Cols: 80}
	}
	if f.interactive() {
		open := true
		s.OpenStdin = &open
		return s, nil
	}
	if f.noStdin || !piped(stdin) {
		return s, nil
	}
	b, err := readStdin(stdin, tell)
	if err != nil {
		return s, exitCode{exitPlatform, err}
	}
	if len(b) > 0 {
		s.Stdin = &b
	}
	return s, nil
}

// interactive tells whether the command takes input while it runs.
func (f *commandFlags) interactive() bool { return f.stdin || f.tty }

// run runs the session as the flags say.
func (f *commandFlags) run(ctx context.Context, c *client.Client, sandbox string, s client.SessionCreate, cmd *cobra.Command, show shower) error {
	if f.interactive() {
		return interactive{client: c, sandbox: sandbox, in: cmd.InOrStdin(), tell: cmd.ErrOrStderr()}.converse(ctx, s, show)
	}
	return stream(ctx, c, sandbox, s, show)
}

func (f *commandFlags) environment(getenv func(string) string) (map[string]string, error) {
	out := make(map[string]string, len(f.env))
	for _, e := range f.env {
		name, value, given := strings.Cut(e, "=")
		if name == "" {
			return nil, exitCode{exitUsage, &cliError{code: "usage", message: fmt.Sprintf("--env %q has no name", e), hint: "write NAME=VALUE"}}
		}
		if !given {
			value = getenv(name)
		}
		out[name] = value
	}
	return out, nil
}

// piped tells whether stdin was meant for the command: a pipe or a file, not a terminal or /dev/null.
func piped(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return r != nil
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0 && (st.Mode().IsRegular() || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

// readStdin reads all, and says so when it takes long: whoever calls from a script may not know that its stdin is open.
func readStdin(r io.Reader, tell io.Writer) ([]byte, error) {
	notice := time.AfterFunc(stdinNotice, func() { fmt.Fprintln(tell, "space: reading stdin until it ends; -n doesn't read it") })
	defer notice.Stop()
	b, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	if len(b) > maxStdin {
		return nil, &cliError{code: "too_large", message: fmt.Sprintf("stdin is longer than %d bytes", maxStdin),
			hint: "-i sends stdin of any length while the command runs"}
	}
	return b, nil
}
