package setup

import (
	"context"
	"fmt"
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
		return fmt.Errorf("purge %s: still mounted: %v: unmount it and purge again", i.Name, left)
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
	for _, shared := range []string{filepath.Dir(i.RunDir()), filepath.Dir(i.LogDir())} {
		os.Remove(shared) // stays while another instance has something there
	}
	return nil
}
