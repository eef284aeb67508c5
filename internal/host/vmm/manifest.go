package vmm

import (
	"fmt"
	"slices"
)

// tscTolerance is how far, in parts in a million, the counters of the host that saved and the one that loads may be apart. The guest's
// clock would be wrong by as much until it's set again; two measurements on one host differ by less than a tenth of it.
const tscTolerance = 200

// Fits returns ErrIncompatible with the first difference between what a snapshot has and what a driver would load it into here.
func (m Manifest) Fits(here Manifest) error {
	for _, c := range []struct{ what, has, want string }{
		{"driver", m.Driver, here.Driver},
		{"version", m.Version, here.Version},
		{"machine", m.Machine, here.Machine},
		{"CPU", m.CPU, here.CPU},
		{"number of CPUs", fmt.Sprint(m.VCPUs), fmt.Sprint(here.VCPUs)},
		{"memory size", fmt.Sprint(m.MemoryBytes), fmt.Sprint(here.MemoryBytes)},
	} {
		if c.has != c.want {
			return fmt.Errorf("%w: its %s is %q, here it's %q", ErrIncompatible, c.what, c.has, c.want)
		}
	}
	if !slices.Equal(m.Devices, here.Devices) {
		return fmt.Errorf("%w: its devices are %v, here they are %v", ErrIncompatible, m.Devices, here.Devices)
	}
	if off := m.TSCKHz - here.TSCKHz; max(off, -off) > here.TSCKHz*tscTolerance/1_000_000 {
		return fmt.Errorf("%w: its time stamp counter runs at %d kHz, this one at %d", ErrIncompatible, m.TSCKHz, here.TSCKHz)
	}
	return nil
}
