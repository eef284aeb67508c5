package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/host/vmm"
)

// rootName is the mount point of a program's root directory, in the enclosure's. On the host it stays empty.
const rootName = "root"

// Enclose makes an enclosure that isn't there yet. When it fails, nothing of it is left, or the error says what is; Remove finishes it.
func (j *Jail) Enclose(ctx context.Context, s Spec) (vmm.Enclosure, error) {
	if err := j.check(s); err != nil {
		return vmm.Enclosure{}, err
	}
	if err := ctx.Err(); err != nil {
		return vmm.Enclosure{}, fmt.Errorf("make enclosure %s: %w", s.ID, err)
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return vmm.Enclosure{}, fmt.Errorf("make enclosure %s: %w", s.ID, err)
	}
	if err := os.Mkdir(j.dirOf(s.ID), 0o700); err != nil { // taken: not ours to undo
		return vmm.Enclosure{}, fmt.Errorf("make enclosure %s: %w", s.ID, err)
	}
	if err := j.furnish(s); err != nil {
		err = fmt.Errorf("make enclosure %s: %w", s.ID, err)
		return vmm.Enclosure{}, errors.Join(err, j.Remove(context.WithoutCancel(ctx), s))
	}
	return j.Find(s), nil
}

// furnish makes the parts, which don't depend on each other.
func (j *Jail) furnish(s Spec) error {
	var g errgroup.Group
	g.Go(func() error { return os.Mkdir(filepath.Join(j.dirOf(s.ID), rootName), 0o700) })
	g.Go(func() error { return netns.Create(j.netNS(s.ID), netns.Tap{Name: TapName, Owner: s.UID}) })
	g.Go(func() error {
		group, err := j.group(s.ID)
		if err != nil {
			return err
		}
		return group.Create(s.Limits)
	})
	return g.Wait()
}

// Weigh gives the enclosure's program the CPU weight of the spec's limits.
func (j *Jail) Weigh(s Spec) error {
	group, err := j.group(s.ID)
	if err == nil {
		err = group.Weigh(s.Limits)
	}
	if err != nil {
		return fmt.Errorf("weigh enclosure %s: %w", s.ID, err)
	}
	return nil
}

// Remove ends every process of an enclosure and removes it. It may be called at any time and again: it removes what there is. While a
// process can't be ended it removes nothing else, so that the uid isn't used again.
func (j *Jail) Remove(ctx context.Context, s Spec) error {
	if err := j.check(s); err != nil {
		return err
	}
	group, err := j.group(s.ID)
	if err != nil {
		return err
	}
	if err := group.Kill(ctx); err != nil {
		return fmt.Errorf("remove enclosure %s: %w", s.ID, err)
	}
	if err := EndUID(ctx, s.UID); err != nil {
		return fmt.Errorf("remove enclosure %s: %w", s.ID, err)
	}
	err = errors.Join(group.Remove(ctx), netns.Remove(j.netNS(s.ID)), os.RemoveAll(j.dirOf(s.ID)))
	if err != nil {
		return fmt.Errorf("remove enclosure %s: %w", s.ID, err)
	}
	return nil
}
