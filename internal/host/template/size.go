package template

import (
	"cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// usual is what machines have whose order doesn't say.
var usual = rootfs.Size{VCPUs: 1, MemoryBytes: 512 * mib}

// The least and the most that a machine can have. The disk may be small, because it's the source that says what fits.
var (
	least = rootfs.Size{VCPUs: 1, MemoryBytes: space.MinMemoryMiB * mib, DiskBytes: 16 * mib}
	most  = rootfs.Size{VCPUs: 32, MemoryBytes: 256 * gib, DiskBytes: 1024 * gib}
)

// moreBytes is what a disk has beside its files and their half more, when steps are going to add to them and nobody said how much.
const moreBytes = 1 * gib

// sized returns the size of a template's machines. DiskBytes stays 0 where it comes from the files.
func (o Order) sized() (rootfs.Size, error) {
	s, from := o.Size, usual
	if o.Recipe != "" {
		r, err := rootfs.Find(o.Recipe)
		if err != nil {
			return s, err
		}
		from = r.Size
		if _, err := r.Sized(filled(s, from)); err != nil {
			return s, err
		}
	}
	s = filled(s, from)
	return s, checkSize(s)
}

func filled(s, from rootfs.Size) rootfs.Size {
	return rootfs.Size{
		VCPUs: cmp.Or(s.VCPUs, from.VCPUs), MemoryBytes: cmp.Or(s.MemoryBytes, from.MemoryBytes), DiskBytes: cmp.Or(s.DiskBytes, from.DiskBytes),
	}
}

// checkSize refuses what no machine can have; no disk is one that isn't known yet.
func checkSize(s rootfs.Size) error {
	switch {
	case s.VCPUs < least.VCPUs || s.VCPUs > most.VCPUs:
		return space.FieldErrorf("shape.vcpus", "%d to %d are possible", least.VCPUs, most.VCPUs)
	case s.MemoryBytes < least.MemoryBytes || s.MemoryBytes > most.MemoryBytes || s.MemoryBytes%mib != 0:
		return space.FieldErrorf("shape.memory_bytes", "%d to %d are possible, whole MiB", least.MemoryBytes, most.MemoryBytes)
	case s.DiskBytes != 0 && (s.DiskBytes < least.DiskBytes || s.DiskBytes > most.DiskBytes || s.DiskBytes%mib != 0):
		return space.FieldErrorf("shape.disk_bytes", "%d to %d are possible, whole MiB", least.DiskBytes, most.DiskBytes)
	}
	return nil
}
