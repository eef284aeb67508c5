package sessions

import (
	"regexp"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// The limits of a session, as openapi.yaml states them. They follow what Linux can execute, so that no session fails for its size.
const (
	maxArgs      = 4096
	maxArgBytes  = 128<<10 - 1 // of one string: the kernel's MAX_ARG_STRLEN counts its terminator
	maxArgsBytes = 128 << 10   // of all arguments with their terminators, and of the environment likewise
	maxEnv       = 256
	maxCwdBytes  = 4096
	maxUserChars = 64
	maxStdin     = 1 << 20
)

var (
	envNameRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	userRE    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
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
	if err := checkCwd(c.Cwd); err != nil {
		return record.Spec{}, err
	}
	if err := checkEnv(c.Env); err != nil {
		return record.Spec{}, err
	}
	if err := checkUser(c.User); err != nil {
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
		return []string{"/bin/sh", "-c", *c.Shell}, checkText("shell", *c.Shell, maxArgBytes)
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
		if err := checkText("argv", arg, maxArgBytes); err != nil {
			return err
		}
		total += len(arg) + 1
	}
	if total > maxArgsBytes {
		return space.FieldErrorf("argv", "has %d bytes with its terminators: at most %d (128 KiB) are allowed", total, maxArgsBytes)
	}
	return nil
}

func checkCwd(cwd string) error {
	if cwd != "" && !strings.HasPrefix(cwd, "/") {
		return space.FieldErrorf("cwd", "%q is not an absolute path", space.Clip(cwd))
	}
	return checkText("cwd", cwd, maxCwdBytes-1)
}

func checkEnv(env map[string]string) error {
	if len(env) > maxEnv {
		return space.FieldErrorf("env", "has %d entries: at most %d are allowed", len(env), maxEnv)
	}
	total := 0
	for name, value := range env {
		if !envNameRE.MatchString(name) {
			return space.FieldErrorf("env", "%q is not a name: it must match [A-Za-z_][A-Za-z0-9_]*", space.Clip(name))
		}
		if err := checkText("env."+space.Clip(name), value, maxArgBytes); err != nil {
			return err
		}
		total += len(name) + 1 + len(value) + 1
	}
	if total > maxArgsBytes {
		return space.FieldErrorf("env", "has %d bytes with its separators: at most %d (128 KiB) are allowed", total, maxArgsBytes)
	}
	return nil
}

func checkUser(user string) error {
	if len(user) > maxUserChars {
		return space.FieldErrorf("user", "has %d characters: at most %d are allowed", len(user), maxUserChars)
	}
	if user != "" && !userRE.MatchString(user) {
		return space.FieldErrorf("user", "%q is not a user's name or number", user)
	}
	return nil
}

// checkText bounds a string and refuses what no program can be given.
func checkText(field, s string, most int) error {
	if len(s) > most {
		return space.FieldErrorf(field, "has %d bytes: at most %d are allowed", len(s), most)
	}
	if strings.ContainsRune(s, 0) {
		return space.FieldErrorf(field, "contains a NUL character, which no program can be given")
	}
	return nil
}
