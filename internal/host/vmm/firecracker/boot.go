package firecracker

import (
	"context"
	"fmt"
	"strings"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

// kernelArgs are what a guest kernel gets to hear. It ends the machine when it panics or restarts, through a keyboard controller that has
// neither keyboard nor mouse, and has no serial port, whose emulation is slow and whose output goes to the host.
var kernelArgs = []string{
	"quiet", "panic=-1", "reboot=k", "cryptomgr.notests", "dummy.numdummies=0", "8250.nr_uarts=0",
	"i8042.noaux", "i8042.nomux", "i8042.dumbkbd", "i8042.nopnp", "i8042.nokbd",
}

// Boot starts a machine with a kernel.
func (d *Driver) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	s := spec{ID: e.ID, OwnFile: b.Memory != "", Manifest: d.manifest(b.Shape, b.Disk != "", e.Tap != "")}
	m, err := d.start(ctx, e, b.Shape, s, files{
		memory: b.Memory, writable: true, disk: b.Disk,
		bind: map[string]vmm.Source{kernelPath: {Path: b.Kernel}, initrdPath: {Path: b.Initrd}},
	})
	if err != nil {
		return nil, fmt.Errorf("boot machine %s: %w", e.ID, err)
	}
	for _, step := range d.bootSteps(m.api, e, b) {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("boot machine %s: %w", e.ID, m.abandon(ctx, err))
		}
	}
	return m.started(), nil
}

// bootSteps describe a machine and start it.
func (d *Driver) bootSteps(c *api.Client, e vmm.Enclosure, b vmm.Boot) []func(context.Context) error {
	args := strings.Join(append(append(kernelArgs[:len(kernelArgs):len(kernelArgs)], d.config.Args...), b.Args...), " ")
	steps := []func(context.Context) error{
		func(ctx context.Context) error {
			return c.SetMachine(ctx, api.Machine{VCPUs: b.Shape.VCPUs, MemoryMiB: b.Shape.MemoryBytes >> 20, TrackDirty: true})
		},
		func(ctx context.Context) error {
			return c.SetBoot(ctx, api.Boot{Kernel: kernelPath, Initrd: initrdPath, Args: args})
		},
		func(ctx context.Context) error { return c.SetVsock(ctx, api.Vsock{CID: guestCID, Path: linkSocket}) },
	}
	if d.config.CPU != nil {
		steps = append(steps, func(ctx context.Context) error { return c.SetCPU(ctx, d.config.CPU) })
	}
	if b.Disk != "" {
		steps = append(steps, func(ctx context.Context) error {
			return c.SetDrive(ctx, api.Drive{ID: diskID, Path: diskPath, CacheType: "Writeback"})
		})
	}
	if e.Tap != "" {
		steps = append(steps, func(ctx context.Context) error {
			return c.SetNetwork(ctx, api.Network{
				ID: networkID, Tap: e.Tap, MAC: e.MAC, Receive: rate(d.config.ReceiveBytes), Send: rate(d.config.SendBytes),
			})
		})
	}
	return append(steps, c.AddEntropy, c.Start)
}

// refill is the time in which a network device's tokens come back, in milliseconds: a burst is a tenth of a second's bytes.
const refill = 100

// rate lets so many bytes pass in a second; nil for no limit.
func rate(bytes int64) *api.Rate {
	if bytes <= 0 {
		return nil
	}
	return &api.Rate{Bandwidth: &api.Bucket{Size: max(bytes/1000*refill, 1), Refill: refill}}
}
