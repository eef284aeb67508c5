package files

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/failure"
)

func (c *call) stat(a *sandboxv1.Stat) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	return c.sendEntry(p)
}

// Modes of what is made without one.
const (
	directoryMode = 0o755
	fileMode      = 0o644
)

func (c *call) makeDirectory(a *sandboxv1.MakeDirectory) error {
	p, err := c.path("path", a.GetPath())
	if err != nil {
		return err
	}
	if err := checkMode(a.Mode); err != nil {
		return err
	}
	owner, err := c.owner(a.GetOwner(), a.GetGroup())
	if err != nil {
		return err
	}
	made, err := makeAll(p)
	if err == nil {
		err = owner.give(made)
	}
	if err != nil {
		return failure.Of("make the directory", p, err)
	}
	if len(made) > 0 && a.Mode != nil {
		if err := unix.Chmod(p, a.GetMode()); err != nil {
			return failure.Of("set the mode of", p, err)
		}
	}
	return c.sendEntry(p)
}

func checkMode(mode *uint32) error {
	if mode != nil && *mode&^modeBits != 0 {
		return space.FieldErrorf("mode", "want at most %#o", modeBits)
	}
	return nil
}

// makeAll makes a directory and those above it. It returns those that weren't there, outermost first.
func makeAll(p string) (made []string, err error) {
	info, err := os.Stat(p)
	if err == nil {
		if !info.IsDir() {
			return nil, unix.EEXIST
		}
		return nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if made, err = makeAll(path.Dir(p)); err != nil {
		return made, err
	}
	if err = unix.Mkdir(p, directoryMode); err == nil {
		return append(made, p), nil
	}
	if info, statErr := os.Stat(p); err == unix.EEXIST && statErr == nil && info.IsDir() { // somebody else has made it
		return made, nil
	}
	return made, err
}

func (c *call) rename(a *sandboxv1.Rename) error {
	from, err := c.path("from", a.GetFrom())
	if err != nil {
		return err
	}
	to, err := c.path("to", a.GetTo())
	if err != nil {
		return err
	}
	if err := unix.Rename(from, to); err != nil {
		if err == unix.EINVAL {
			return space.FieldErrorf("to", "a directory can't be moved into itself")
		}
		return failure.Of("rename "+failure.Clip(from)+" to", to, err)
	}
	syncDirectory(path.Dir(to))
	return c.sendEntry(to)
}

// syncDirectory writes a directory's names to the disk, as far as the user may.
func syncDirectory(p string) {
	if dir, err := os.Open(p); err == nil {
		dir.Sync()
		dir.Close()
	}
}
