// Package fake is a driver without virtual machines: each is one ordinary process, spaced-guest serving sessions on the host. It's for
// tests of everything above the drivers, and for load tests.
//
// What callers see of a machine's life is real: a process that can be killed, found again by its handle, stopped and started, and a link to a
// guest. What isn't: a snapshot holds nothing of files and memory, kernel, disk and memory files are looked at and not used, and nothing
// separates the "guest" from the host but the enclosure. Pausing stops the agent, not what it started.
//
// Inside is the same without processes, for loads under which one for each machine would be all that is measured.
package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/proc"
)

// Name is the driver's word in manifests and handles.
const Name = "fake"

// version stands in manifests. It changes when snapshots of the one before don't load any more.
const version = "1"

// Driver implements vmm.Driver.
type Driver struct {
	guest  string
	bootID string
}

var _ vmm.Driver = (*Driver)(nil)

// New makes the driver. guest is the path of the spaced-guest binary.
func New(guest string) (*Driver, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, fmt.Errorf("make the fake driver: %w", err)
	}
	return &Driver{guest: guest, bootID: boot}, nil
}

// Name is "fake".
func (d *Driver) Name() string { return Name }

// Capabilities: host speed, and no boundary of any kind.
func (d *Driver) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{Acceleration: "none", CPUFactor: 1, PauseKeepsLink: true, SharedMemory: true, Version: version}
}

// Boot starts a process.
func (d *Driver) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	m, err := d.start(ctx, e, b.Shape, b.Memory, b.Kernel, b.Initrd, b.Disk)
	if err != nil {
		return nil, fmt.Errorf("boot machine %s: %w", e.ID, err)
	}
	return m, nil
}

// Load starts a process.
func (d *Driver) Load(ctx context.Context, e vmm.Enclosure, l vmm.Load) (vmm.Machine, error) {
	if err := checkLoad(l); err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	m, err := d.start(ctx, e, l.Shape, l.Memory, l.Disk)
	if err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	return m, nil
}

// Recover finds a process again.
func (d *Driver) Recover(_ context.Context, e vmm.Enclosure, h vmm.Handle) (vmm.Machine, error) {
	s, err := parseSpec(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	p, err := monitor.Find(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	return newMachine(p, nil, s), nil
}

// start starts the agent and returns when it listens.
func (d *Driver) start(ctx context.Context, e vmm.Enclosure, shape vmm.Shape, memory string, files ...string) (*machine, error) {
	if err := checkFiles(shape, memory, files); err != nil {
		return nil, err
	}
	s := spec{ID: e.ID, Link: filepath.Join(e.Dir, "link.sock"), Shape: shape}
	p, said, err := d.spawn(ctx, e, s.Link)
	if err != nil {
		return nil, err
	}
	m := newMachine(p, said, s)
	c, err := p.Dial(ctx, s.Link)
	if err != nil {
		return nil, m.abandon(ctx, err)
	}
	c.Close()
	return m, nil
}

// checkFiles refuses what a real driver would refuse.
func checkFiles(shape vmm.Shape, memory string, files []string) error {
	if memory != "" {
		info, err := os.Stat(memory)
		if err != nil {
			return err
		}
		if info.Size() != shape.MemoryBytes {
			return fmt.Errorf("memory file %s has %d bytes, the machine %d", memory, info.Size(), shape.MemoryBytes)
		}
	}
	for _, f := range files {
		if f == "" {
			continue
		}
		if _, err := os.Stat(f); err != nil {
			return err
		}
	}
	return nil
}

func manifest(s vmm.Shape) vmm.Manifest {
	return vmm.Manifest{
		Driver: Name, Version: version, Machine: "process", CPU: "host", Devices: []string{"link"}, VCPUs: s.VCPUs, MemoryBytes: s.MemoryBytes,
	}
}

func same(a, b vmm.Manifest) bool {
	if !slices.Equal(a.Devices, b.Devices) {
		return false
	}
	a.Devices, b.Devices = nil, nil
	return a.Driver == b.Driver && a.Version == b.Version && a.Machine == b.Machine && a.CPU == b.CPU &&
		a.VCPUs == b.VCPUs && a.MemoryBytes == b.MemoryBytes && a.TSCKHz == b.TSCKHz
}
