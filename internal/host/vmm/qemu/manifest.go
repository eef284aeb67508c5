package qemu

import (
	"fmt"
	"slices"

	"github.com/space-platform/space/internal/host/vmm"
)

// tscTolerance is how far, in parts in a million, the counters of the host that saved and the one that loads may be apart. The guest's
// clock would be wrong by as much until it's set again; two measurements on one host differ by less than a tenth of it.
const tscTolerance = 200

// manifest describes machines of a line, as they are saved here.
func (d *Driver) manifest(l Line) vmm.Manifest {
	var devices []string
	for _, dev := range l.devices() {
		devices = append(devices, dev.name)
	}
	return vmm.Manifest{
		Driver: Name, Version: d.version.String(), Machine: l.Acceleration + ":" + l.machine(), CPU: d.cpu(l), Devices: devices,
		VCPUs: l.Shape.VCPUs, MemoryBytes: l.Shape.MemoryBytes, TSCKHz: d.tscKHz,
	}
}

// cpu names the processor that a guest sees: with hardware virtualisation it's the host's.
func (d *Driver) cpu(l Line) string {
	if l.Acceleration == "kvm" {
		return l.cpu() + ":" + d.hostCPU
	}
	return l.cpu()
}

// compare returns vmm.ErrIncompatible with the first difference between what a snapshot has and what would load it.
func compare(snapshot, here vmm.Manifest) error {
	for _, c := range []struct{ what, has, want string }{
		{"driver", snapshot.Driver, here.Driver},
		{"QEMU version", snapshot.Version, here.Version},
		{"machine", snapshot.Machine, here.Machine},
		{"CPU", snapshot.CPU, here.CPU},
		{"number of CPUs", fmt.Sprint(snapshot.VCPUs), fmt.Sprint(here.VCPUs)},
		{"memory size", fmt.Sprint(snapshot.MemoryBytes), fmt.Sprint(here.MemoryBytes)},
	} {
		if c.has != c.want {
			return fmt.Errorf("%w: its %s is %q, here it's %q", vmm.ErrIncompatible, c.what, c.has, c.want)
		}
	}
	if !slices.Equal(snapshot.Devices, here.Devices) {
		return fmt.Errorf("%w: its devices are %v, here they are %v", vmm.ErrIncompatible, snapshot.Devices, here.Devices)
	}
	if off := snapshot.TSCKHz - here.TSCKHz; max(off, -off) > here.TSCKHz*tscTolerance/1_000_000 {
		return fmt.Errorf("%w: its time stamp counter runs at %d kHz, this one at %d", vmm.ErrIncompatible, snapshot.TSCKHz, here.TSCKHz)
	}
	return nil
}
