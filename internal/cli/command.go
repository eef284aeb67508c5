package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// maxStdin is how much stdin a session takes when it's created, in bytes. More is sent while it runs.
const maxStdin = 1 << 20

// stdinNotice is after how long of reading stdin people are told.
const stdinNotice = 3 * time.Second

// aboutInput is what the help of run and exec says of stdin and signals.
const aboutInput = `What is piped in is the command's stdin; with -i it's sent as it comes, with -t typed into its terminal. Without -t an interrupt (Ctrl-C), a hangup and
a request to terminate go to the command as signals, and a second one kills it; with -t the keys themselves go there.`

// commandFlags say how a command runs in its sandbox.
type commandFlags struct {
	env     []string
	cwd     string
	user    string
	noStdin bool
	stdin   bool // -i: stdin goes on while the command runs
	tty     bool // -t: run in a terminal
	timeout time.Duration

	rest io.Reader // the stdin that is sent while the command runs; nil: none
}

func addCommandFlags(c *cobra.Command) *commandFlags {
	f := &commandFlags{}
	c.Flags().SetInterspersed(false) // the command's flags aren't ours
	c.Flags().StringArrayVarP(&f.env, "env", "e", nil, "NAME=VALUE for the command; NAME alone takes the value from here, if it has one")
	c.Flags().StringVarP(&f.cwd, "workdir", "w", "", "absolute path in which to run; the user's home if not given")
	c.Flags().StringVarP(&f.user, "user", "u", "", "user to run as; the template's default if not given")
	c.Flags().BoolVarP(&f.noStdin, "no-stdin", "n", false, "don't read stdin, even if something is piped in")
	c.Flags().BoolVarP(&f.stdin, "interactive", "i", false, "send stdin while the command runs, however long it is")
	c.Flags().BoolVarP(&f.tty, "tty", "t", false, "run in a terminal; implies -i")
	spanVar(c.Flags(), &f.timeout, "timeout", "end the command after this time with SIGTERM, and 2s later with SIGKILL; the exit code is 124 then", time.Second, 168*time.Hour)
	return f
}

// target separates what a command runs in from the command and its arguments. Our flags stand before or after the target; what follows the
// first word of the command, or --, is the command's own. Without an error there is no command if help was asked for, and given.
func target(cmd *cobra.Command, args []string, name string) (target string, argv []string, err error) {
	if len(args) == 0 {
		return "", nil, commandUsage(cmd, fmt.Errorf("%s wants %s and a command", cmd.CommandPath(), name))
	}
	if err := cmd.Flags().Parse(args[1:]); err != nil {
		return "", nil, commandUsage(cmd, readable(err))
	}
	if asked, _ := cmd.Flags().GetBool("help"); asked {
		return "", nil, cmd.Help()
	}
	if argv = cmd.Flags().Args(); len(argv) == 0 {
		return "", nil, commandUsage(cmd, fmt.Errorf("%s wants a command after %s %s", cmd.CommandPath(), name, args[0]))
	}
	return args[0], argv, nil
}

func commandUsage(cmd *cobra.Command, err error) error {
	return wrongly("write "+cmd.UseLine()+"; flags of the command itself come after it", "%s", err)
}

// session is what the flags ask for. Its errors say with which code to end.
func (f *commandFlags) session(argv []string, stdin io.Reader, tell io.Writer, lookupenv func(string) (string, bool)) (client.SessionCreate, error) {
	s := client.SessionCreate{Argv: &argv}
	if f.cwd != "" {
		s.Cwd = &f.cwd
	}
	if f.user != "" {
		s.User = &f.user
	}
	env, err := f.environment(lookupenv)
	if err != nil {
		return s, err
	}
	if len(env) > 0 {
		s.Env = &env
	}
	if f.timeout > 0 {
		seconds := int(f.timeout / time.Second)
		s.TimeoutSeconds = &seconds
	}
	if f.tty {
		s.Tty = &gen.TerminalSize{Rows: 24, Cols: 80}
	}
	open := true
	if f.stdin || f.tty {
		s.OpenStdin, f.rest = &open, stdin
		return s, nil
	}
	if f.noStdin || !piped(stdin) {
		return s, nil
	}
	b, more, err := readStdin(stdin, tell)
	if err != nil {
		return s, exitCode{exitPlatform, err}
	}
	if len(b) > 0 {
		s.Stdin = &b
	}
	if more {
		s.OpenStdin, f.rest = &open, stdin
	}
	return s, nil
}

// environment is what the flags give. A name alone that isn't set here is left out, as docker does it.
func (f *commandFlags) environment(lookupenv func(string) (string, bool)) (map[string]string, error) {
	out := make(map[string]string, len(f.env))
	for _, e := range f.env {
		name, value, given := strings.Cut(e, "=")
		if name == "" {
			return nil, wrongly("write NAME=VALUE", "--env %q has no name", e)
		}
		if !given {
			if value, given = lookupenv(name); !given {
				continue
			}
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

// readStdin reads what a session takes when it's created, and tells whether there may be more. It says so when it takes long: whoever calls
// from a script may not know that its stdin is open.
func readStdin(r io.Reader, tell io.Writer) (b []byte, more bool, err error) {
	notice := time.AfterFunc(stdinNotice, func() {
		fmt.Fprintln(tell, "space: reading stdin until it ends; -i sends it as it comes, -n doesn't read it")
	})
	defer notice.Stop()
	if b, err = io.ReadAll(io.LimitReader(r, maxStdin)); err != nil {
		return nil, false, fmt.Errorf("read stdin: %w", err)
	}
	return b, len(b) == maxStdin, nil
}
