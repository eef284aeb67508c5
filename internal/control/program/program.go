// Package program checks what a program in a guest can be given: its text, environment, user and directory. Sessions, sandboxes and
// templates have the same limits, which follow what Linux can execute, so that nothing fails later for its size. Each error names the
// field and the limit.
package program

import (
	"regexp"
	"strings"

	space "github.com/space-platform/space"
)

// The limits, as openapi.yaml states them.
const (
	MaxText     = 128<<10 - 1 // bytes of one string: the kernel's MAX_ARG_STRLEN counts its terminator
	MaxEnv      = 256         // entries
	MaxEnvBytes = 128 << 10   // of all entries with their separators
	MaxPath     = 4096 - 1    // bytes: the kernel's PATH_MAX counts its terminator
)

var envNameRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckText bounds a string, in bytes, and refuses what no program can be given.
func CheckText(field, s string, most int) error {
	switch {
	case len(s) > most:
		return space.FieldErrorf(field, "has %d bytes: at most %d are allowed", len(s), most)
	case strings.ContainsRune(s, 0):
		return space.FieldErrorf(field, "contains a NUL character, which no program can be given")
	}
	return nil
}

// CheckDirectory refuses what isn't an absolute path. Empty is allowed: none is given.
func CheckDirectory(field, path string) error {
	if path != "" && !strings.HasPrefix(path, "/") {
		return space.FieldErrorf(field, "%q is not an absolute path", space.Clip(path))
	}
	return CheckText(field, path, MaxPath)
}

// CheckEnv refuses an environment that isn't one.
func CheckEnv(field string, env map[string]string) error {
	if len(env) > MaxEnv {
		return space.FieldErrorf(field, "has %d entries: at most %d are allowed", len(env), MaxEnv)
	}
	total := 0
	for name, value := range env {
		if !envNameRE.MatchString(name) {
			return space.FieldErrorf(field, "%q is not a name: it must match [A-Za-z_][A-Za-z0-9_]*", space.Clip(name))
		}
		if err := CheckText(field+"."+space.Clip(name), value, MaxText); err != nil {
			return err
		}
		total += len(name) + 1 + len(value) + 1
	}
	if total > MaxEnvBytes {
		return space.FieldErrorf(field, "has %d bytes with its separators: at most %d (128 KiB) are allowed", total, MaxEnvBytes)
	}
	return nil
}
