package sessions

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

// The limits of a session, as openapi.yaml states them. They follow what Linux can execute, so that no session fails for its size.
const (
	maxArgs      = 4096
	maxArgsBytes = 128 << 10 // of all arguments with their terminators
	maxStdin     = 1 << 20
	maxTerminal  = 1000   // rows and columns
	maxTimeout   = 604800 // seconds: a week
)

// Create is what a client asks for. Exactly one of Argv and Shell is given.
type Create struct {
	Argv  []string // nil: not given
	Shell *string
	Cwd   string
	Env   map[string]string
	User  string
	Stdin []byte

	OpenStdin      bool
	TTY            *Terminal
	TimeoutSeconds *int
}

// Terminal is the size of a terminal, as it's asked for.
type Terminal struct{ Rows, Cols int }

// Spec checks a request and returns what the session runs, by itself: without what its sandbox and its template add. The error names the
// field and its limit.
func (c Create) Spec() (record.Spec, error) {
	argv, err := c.argv()
	if err != nil {
		return record.Spec{}, err
	}
	if err := program.CheckDirectory("cwd", c.Cwd); err != nil {
		return record.Spec{}, err
	}
	if err := program.CheckEnv("env", c.Env); err != nil {
		return record.Spec{}, err
	}
	if err := space.CheckUser("user", c.User); err != nil {
		return record.Spec{}, err
	}
	if err := c.checkConduct(); err != nil {
		return record.Spec{}, err
	}
	if len(c.Stdin) > maxStdin {
		return record.Spec{}, space.FieldErrorf("stdin", "has %d bytes: at most %d (1 MiB) are allowed", len(c.Stdin), maxStdin)
	}
	out := record.Spec{Argv: argv, Cwd: c.Cwd, Env: c.Env, User: c.User, Stdin: c.Stdin, OpenStdin: c.OpenStdin}
	if c.TTY != nil {
		out.TTY, out.OpenStdin = record.Terminal{Rows: uint32(c.TTY.Rows), Cols: uint32(c.TTY.Cols)}, true
	}
	if c.TimeoutSeconds != nil {
		out.Timeout = time.Duration(*c.TimeoutSeconds) * time.Second
	}
	return out, nil
}

// checkConduct checks the terminal's size and the timeout.
func (c Create) checkConduct() error {
	if t := c.TTY; t != nil {
		for _, x := range []struct {
			field string
			n     int
		}{{"tty.rows", t.Rows}, {"tty.cols", t.Cols}} {
			if x.n < 1 || x.n > maxTerminal {
				return space.FieldErrorf(x.field, "is %d: it must be 1 to %d", x.n, maxTerminal)
			}
		}
	}
	if n := c.TimeoutSeconds; n != nil && (*n < 1 || *n > maxTimeout) {
		return space.FieldErrorf("timeout_seconds", "is %d: it must be 1 to %d", *n, maxTimeout)
	}
	return nil
}

func (c Create) argv() ([]string, error) {
	switch {
	case c.Argv != nil && c.Shell != nil:
		return nil, space.FieldErrorf("shell", "argv and shell are both given: exactly one is allowed")
	case c.Shell != nil:
		if *c.Shell == "" {
			return nil, space.FieldErrorf("shell", "is empty: at least 1 character is needed")
		}
		return []string{"/bin/sh", "-c", *c.Shell}, program.CheckText("shell", *c.Shell, program.MaxText)
	case c.Argv == nil:
		return nil, space.FieldErrorf("argv", "neither argv nor shell is given: exactly one is needed")
	default:
		return c.Argv, checkArgv(c.Argv)
	}
}

func checkArgv(argv []string) error {
	if len(argv) == 0 || len(argv) > maxArgs {
		return space.FieldErrorf("argv", "has %d items: it must have 1 to %d", len(argv), maxArgs)
	}
	if argv[0] == "" {
		return space.FieldErrorf("argv", "its first item, the program, is empty")
	}
	total := 0
	for _, arg := range argv {
		if err := program.CheckText("argv", arg, program.MaxText); err != nil {
			return err
		}
		total += len(arg) + 1
	}
	if total > maxArgsBytes {
		return space.FieldErrorf("argv", "has %d bytes with its terminators: at most %d (128 KiB) are allowed", total, maxArgsBytes)
	}
	return nil
}
