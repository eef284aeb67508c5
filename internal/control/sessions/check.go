package sessions

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

// The limits of a session, as openapi.yaml states them. They follow what Linux can execute, so that no session fails for its size.
const (
	maxArgs      = 4096
	maxArgsBytes = 128 << 10 // of all arguments with their terminators
	maxStdin     = 1 << 20
)

// Create is what a client asks for. Exactly one of Argv and Shell is given.
type Create struct {
	Argv  []string // nil: not given
	Shell *string
	Cwd   string
	Env   map[string]string
	User  string
	Stdin []byte
}

// Spec checks a request and returns what the session runs. The error names the field and its limit.
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
	if err := program.CheckUser("user", c.User); err != nil {
		return record.Spec{}, err
	}
	if len(c.Stdin) > maxStdin {
		return record.Spec{}, space.FieldErrorf("stdin", "has %d bytes: at most %d (1 MiB) are allowed", len(c.Stdin), maxStdin)
	}
	env := c.Env
	if env == nil {
		env = map[string]string{}
	}
	return record.Spec{Argv: argv, Cwd: c.Cwd, Env: env, User: c.User, Stdin: c.Stdin}, nil
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
