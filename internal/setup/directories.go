package setup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/space-platform/space/internal/instance"
)

// directory is one to make, with its owner and mode.
type directory struct {
	path     string
	uid, gid int
	mode     fs.FileMode
}

// EnsureDirectories makes the instance's directories and sets their owners and modes. A role's data is its own; a role's sockets
// belong to it and to the instance's group, which the directory hands down to the sockets.
func EnsureDirectories(i instance.Instance) error {
	for _, d := range directories(i) {
		if err := ensureDirectory(d); err != nil {
			return err
		}
	}
	return nil
}

func directories(i instance.Instance) []directory {
	out := []directory{
		{path: instance.Root, mode: 0o755},
		{path: i.DataDir(), mode: 0o755},
		{path: filepath.Dir(i.RunDir()), mode: 0o755},
		{path: i.RunDir(), mode: 0o755},
		{path: filepath.Dir(i.LogDir()), mode: 0o755},
		{path: i.LogDir(), mode: 0o750},
	}
	for _, r := range instance.Roles() {
		uid := i.UID(r)
		out = append(out,
			directory{path: i.RoleDir(r), uid: uid, gid: uid, mode: 0o700},
			directory{path: i.RoleRunDir(r), uid: uid, gid: i.GID(), mode: 0o750 | fs.ModeSetgid})
	}
	return out
}

func ensureDirectory(d directory) error {
	if err := os.MkdirAll(d.path, 0o755); err != nil { // all: the purge of another instance may remove a shared parent just now
		return fmt.Errorf("make directory: %w", err)
	}
	st, err := os.Lstat(d.path)
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("make directory %s: something else is there", d.path)
	}
	if err := os.Chown(d.path, d.uid, d.gid); err != nil {
		return fmt.Errorf("give directory to its user: %w", err)
	}
	if err := os.Chmod(d.path, d.mode); err != nil { // after chown, which clears setgid
		return fmt.Errorf("set a directory's mode: %w", err)
	}
	return nil
}
