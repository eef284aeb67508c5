package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/space-platform/space/internal/instance"
)

// Purge removes what an instance has on the machine: kernel objects, directories, users, its slot. The roles must have ended. With the
// last instance go the directories that all share. A purge that was interrupted is taken up by the next one.
func Purge(ctx context.Context, i instance.Instance) error {
	if err := EndMachines(ctx, i); err != nil {
		return err
	}
	if err := RemoveKernelObjects(ctx, i); err != nil {
		return err
	}
	left, err := mountsBelow(i.DataDir(), i.RunDir())
	if err != nil {
		return err
	}
	if len(left) > 0 { // never delete through a mount
		return fmt.Errorf("purge %s: still mounted: %v", i.Name, left)
	}
	for _, dir := range []string{i.RunDir(), i.LogDir(), i.DataDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("purge %s: %w", i.Name, err)
		}
	}
	if err := RemoveUsers(ctx, i); err != nil {
		return fmt.Errorf("purge %s: %w", i.Name, err)
	}
	if err := instance.Release(i.Name); err != nil {
		return fmt.Errorf("purge %s: %w", i.Name, err)
	}
	return removeShared(i)
}

// removeShared takes away the shared directories once no instance is left.
func removeShared(i instance.Instance) error {
	others, err := instance.List()
	if err != nil || len(others) > 0 {
		return err
	}
	for _, f := range []string{"instances.json", "instances.json.lock", "users.lock"} {
		if err := os.Remove(filepath.Join(instance.Root, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("purge the last instance: %w", err)
		}
	}
	for _, dir := range []string{instance.Root, filepath.Dir(i.RunDir()), filepath.Dir(i.LogDir())} {
		os.Remove(dir) // stays if somebody put something there
	}
	return nil
}
