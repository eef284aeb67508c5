package qemu

import (
	"context"
	"fmt"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// Recover re-attaches to a machine.
func (d *Driver) Recover(ctx context.Context, e vmm.Enclosure, h vmm.Handle) (vmm.Machine, error) {
	s, err := parseSpec(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	p, err := monitor.Find(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	m := d.newMachine(p, nil, s)
	m.lent = true // nobody knows
	if err := m.connect(ctx); err != nil {
		err = m.explain(err)
		m.Close()
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	return m.started(), nil
}
