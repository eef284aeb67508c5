package firecracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/pager"
)

// Load starts a machine from a snapshot.
func (d *Driver) Load(ctx context.Context, e vmm.Enclosure, l vmm.Load) (vmm.Machine, error) {
	m, err := d.load(ctx, e, l)
	if err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	return m.started(), nil
}

func (d *Driver) load(ctx context.Context, e vmm.Enclosure, l vmm.Load) (*machine, error) {
	here := d.manifest(l.Shape, l.Disk != "", e.Tap != "")
	if err := l.Manifest.Fits(here); err != nil {
		return nil, err
	}
	if l.Sealed != nil {
		return nil, errors.New("Firecracker maps files only, and no sealed memory")
	}
	var memory unix.Stat_t
	if err := unix.Stat(l.Memory, &memory); err != nil {
		return nil, fmt.Errorf("look at memory file %s: %w", l.Memory, err)
	}
	state, err := copyState(e, l.State)
	if err != nil {
		return nil, err
	}
	defer os.Remove(state) // Firecracker has read it
	s := spec{ID: e.ID, Loaded: true, Inode: memory.Ino, Manifest: here}
	f := files{memory: l.Memory, disk: l.Disk, bind: map[string]vmm.Source{statePath: {Path: state}}}
	if l.Pages == nil {
		return d.loadFrom(ctx, e, l.Shape, s, f, nil)
	}
	p, err := d.startPager(ctx, e, l)
	if err != nil {
		return nil, err
	}
	defer os.Remove(p.Socket()) // it takes one connection
	h := p.Handle()
	s.Pager, f.paged = &h, true
	if f.outside, err = bindPager(e, p, f.bind); err != nil {
		return nil, errors.Join(err, dismiss(ctx, p))
	}
	return d.loadFrom(ctx, e, l.Shape, s, f, p)
}

// loadFrom starts Firecracker and has it load the snapshot, with the pages of a pager unless that's nil.
func (d *Driver) loadFrom(ctx context.Context, e vmm.Enclosure, shape vmm.Shape, s spec, f files, p *pager.Pager) (*machine, error) {
	m, err := d.start(ctx, e, shape, s, f)
	if err != nil {
		return nil, errors.Join(err, dismiss(ctx, p))
	}
	m.attend(p)
	if err := d.restore(ctx, m.api, e, s); err != nil {
		return nil, m.abandon(ctx, err)
	}
	return m, nil
}

// restore lets Firecracker load the snapshot. The machine runs only when its network has its limits: those that the snapshot has may be
// another node's.
func (d *Driver) restore(ctx context.Context, c *api.Client, e vmm.Enclosure, s spec) error {
	l := api.Load{State: statePath, Memory: backend(s), TrackDirty: true, Resume: e.Tap == ""}
	if e.Tap != "" {
		l.Networks = []api.NetworkOverride{{ID: networkID, Tap: e.Tap}}
	}
	if d.version.atLeast(overridesVsock) {
		l.Vsock = &api.VsockOverride{Path: linkSocket}
	}
	if err := c.Load(ctx, l); err != nil {
		return err
	}
	if l.Resume {
		return nil
	}
	if err := c.LimitNetwork(ctx, d.networkLimits()); err != nil {
		return err
	}
	return c.Resume(ctx)
}

// networkLimits are the node's. A bucket without tokens is how Firecracker is told that there's no limit any more.
func (d *Driver) networkLimits() api.NetworkLimits {
	none := &api.Rate{Bandwidth: &api.Bucket{}}
	return api.NetworkLimits{
		ID: networkID, Receive: cmp.Or(rate(d.config.ReceiveBytes), none), Send: cmp.Or(rate(d.config.SendBytes), none),
	}
}
