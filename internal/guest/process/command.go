package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/space-platform/space/internal/guest/account"
)

// defaultPath is the PATH of sessions that bring none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// defaultTerm is the TERM of sessions in a terminal that bring none.
const defaultTerm = "xterm-256color"

// defaultLang makes programs speak UTF-8 without any locale being installed.
const defaultLang = "C.UTF-8"

// Codes of commands that couldn't be started, as shells have them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// Spec is a command to run.
type Spec struct {
	Argv       []string // the program, looked up in PATH unless it has a slash, and its arguments
	Cwd        string   // absolute; empty: the user's home, or / if there is none
	Env        map[string]string
	User       string        // name or number; empty: "user" if the image has it, else root
	StdinBytes int64         // how much stdin follows, at most MaxStdin; then it's closed
	OpenStdin  bool          // stdin is of any length instead, and has an end when that was received
	Terminal   *Size         // run in a terminal: one stream of output, Stdout; nil: pipes
	Timeout    time.Duration // then the process group is ended; 0: never
}

// check refuses what is out of its limits.
func (s Spec) check() error {
	if s.StdinBytes < 0 || s.StdinBytes > MaxStdin {
		return notExecutable("stdin: %d bytes, want at most %d", s.StdinBytes, MaxStdin)
	}
	if s.Terminal != nil {
		if err := s.Terminal.check(); err != nil {
			return notExecutable("tty: %w", err)
		}
	}
	return nil
}

// startError is why a command couldn't be started, with the code that a shell would exit with.
type startError struct {
	code int
	err  error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

func notExecutable(format string, args ...any) error {
	return &startError{codeNotExecutable, fmt.Errorf(format, args...)}
}

// command is a Spec against the file system of this machine: ready to fork.
type command struct {
	path string
	argv []string
	dir  string
	env  []string
	user account.Account
}

// resolve finds user, directory and program. Errors are *startError.
func (s Spec) resolve(a account.Files) (command, error) {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return command{}, notExecutable("argv: no program is named")
	}
	user, err := a.Find(s.User)
	if err != nil {
		return command{}, notExecutable("%w", err)
	}
	c := command{argv: s.Argv, user: user}
	if c.env, err = s.environment(user); err != nil {
		return command{}, err
	}
	if c.dir, err = s.directory(user); err != nil {
		return command{}, err
	}
	c.path, err = lookup(s.Argv[0], c.dir, cmp.Or(s.Env["PATH"], defaultPath))
	return c, err
}

// environment is the user's, with the Spec's on top, sorted.
func (s Spec) environment(u account.Account) ([]string, error) {
	env := map[string]string{"PATH": defaultPath, "HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell, "LANG": defaultLang}
	if s.Terminal != nil {
		env["TERM"] = defaultTerm
	}
	maps.Copy(env, s.Env)
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(env[k], "\x00") {
			return nil, notExecutable("env %q: a name has no = and no zero byte, a value no zero byte", clip(k))
		}
		out = append(out, k+"="+env[k])
	}
	return out, nil
}

// directory is the one the command starts in.
func (s Spec) directory(u account.Account) (string, error) {
	if s.Cwd == "" {
		if isDir(u.Home) {
			return u.Home, nil
		}
		return "/", nil
	}
	if !path.IsAbs(s.Cwd) {
		return "", notExecutable("cwd %q: not an absolute path", clip(s.Cwd))
	}
	if !isDir(s.Cwd) {
		return "", notExecutable("cwd %q: no such directory", clip(s.Cwd))
	}
	return s.Cwd, nil
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && path.IsAbs(p) && info.IsDir()
}

// lookup finds a program as execvp does: in the directories of search unless its name has a slash.
func lookup(name, dir, search string) (string, error) {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(dir, name)
		}
		return name, executable(name)
	}
	var denied error
	for _, d := range strings.Split(search, ":") {
		if !path.IsAbs(d) {
			d = path.Join(dir, d)
		}
		p := path.Join(d, name)
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			denied = cmp.Or(denied, err)
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &startError{codeNotFound, fmt.Errorf("%s: not found in PATH: %w", clip(name), fs.ErrNotExist)}
}

// executable says whether a path can be a program at all. Whether the user may run it is the kernel's to say.
func executable(p string) error {
	info, err := os.Stat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &startError{codeNotFound, fmt.Errorf("%s: %w", clip(p), reason(err))}
	case err != nil:
		return notExecutable("%s: %w", clip(p), reason(err))
	case info.IsDir():
		return notExecutable("%s: is a directory", clip(p))
	case info.Mode()&0o111 == 0:
		return notExecutable("%s: %w", clip(p), syscall.EACCES)
	}
	return nil
}

// failure is what the kernel's refusal to run a command means.
func (c command) failure(err error) error {
	code := codeNotExecutable
	if errors.Is(err, fs.ErrNotExist) { // the interpreter of a script, or the loader
		code = codeNotFound
	}
	return &startError{code, fmt.Errorf("run %s in %s as %s: %w", clip(c.path), clip(c.dir), c.user.Name, reason(err))}
}

// reason is an error without the path, which the caller names: a path may be as long as all arguments.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// clipBytes bounds how much of a caller's text an error repeats.
const clipBytes = 64

func clip(s string) string {
	if len(s) <= clipBytes {
		return s
	}
	return strings.ToValidUTF8(s[:clipBytes], "") + "…"
}
