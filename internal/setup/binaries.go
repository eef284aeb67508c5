package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/space-platform/space/internal/instance"
)

// Binaries are the programs that the platform runs, by their names in a build's directory and in the instance's.
func Binaries() []string { return []string{"space", "spaced-guest"} }

// EnsureBinaries copies the binaries from a build's directory, and notes which one that is. One that is the same already stays as it is; another one takes its
// place in one step, and running processes keep the old one.
func EnsureBinaries(i instance.Instance, from string) error {
	if err := ensureDirectory(directory{path: i.BinDir(), mode: 0o755}); err != nil {
		return err
	}
	for _, name := range Binaries() {
		if err := ensureBinary(filepath.Join(from, name), filepath.Join(i.BinDir(), name)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	if err := os.WriteFile(i.BuildFile(), []byte(from+"\n"), 0o644); err != nil {
		return fmt.Errorf("note where the binaries are from: %w", err)
	}
	return nil
}

// BuildOf is the directory from which an instance's binaries were copied last; "" if that isn't known.
func BuildOf(i instance.Instance) string {
	b, err := os.ReadFile(i.BuildFile())
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

func ensureBinary(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(to)
	if err == nil && bytes.Equal(have, b) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(to+".new", b, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(to+".new", 0o755); err != nil { // whatever the umask
		return err
	}
	return os.Rename(to+".new", to)
}
