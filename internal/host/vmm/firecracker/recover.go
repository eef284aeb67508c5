package firecracker

import (
	"context"
	"fmt"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// Recover re-attaches to a machine, whose Firecracker may be of another version than those that this driver starts. What the daemon's life before had
// lent it when it ended is taken back.
func (d *Driver) Recover(ctx context.Context, e vmm.Enclosure, h vmm.Handle) (vmm.Machine, error) {
	s, err := parseSpec(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	v, err := versionOf(s.Manifest)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	p, err := monitor.Find(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	m := d.newMachine(p, nil, e.Starter, s, v)
	if s.Pager != nil {
		found, err := recoverPager(ctx, e, p, *s.Pager)
		if err != nil {
			m.Close()
			return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
		}
		m.attend(found)
	}
	m.saved = true // who knows
	err = e.Starter.TakeBack(ctx, h, []string{savedStatePath, savedMemoryPath})
	if err == nil {
		_, err = m.api.Instance(ctx)
	}
	if err != nil {
		err = m.explain(err)
		m.Close()
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	return m.started(), nil
}
