package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is where Debian puts each major version's binaries.
const Root = "/usr/lib/postgresql"

// ErrNotInstalled is returned when no PostgreSQL server is installed.
var ErrNotInstalled = errors.New("no PostgreSQL server is installed: install postgresql")

// Binaries returns the directory of the binaries to use below root: those that made the data directory if it exists and they are
// there, else the newest.
func Binaries(root, data string) (string, error) {
	if b, err := os.ReadFile(filepath.Join(data, "PG_VERSION")); err == nil {
		if dir := filepath.Join(root, strings.TrimSpace(string(b)), "bin"); hasServer(dir) {
			return dir, nil
		}
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*", "bin"))
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	newest, version := "", -1
	for _, d := range dirs {
		if v, err := strconv.Atoi(majorOf(d)); err == nil && v > version && hasServer(d) {
			newest, version = d, v
		}
	}
	if newest == "" {
		return "", ErrNotInstalled
	}
	return newest, nil
}

// majorOf reads the major version off a directory of binaries: /usr/lib/postgresql/15/bin.
func majorOf(bin string) string { return filepath.Base(filepath.Dir(bin)) }

func hasServer(dir string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
