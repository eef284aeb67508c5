// Package placement decides whether a machine goes to a node. A snapshot is on the node that made it, so there's nothing to choose yet:
// only whether the node can have such a machine at all, and whether it has room for one more.
package placement

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// CPUOvercommit is how many vCPUs are promised for each CPU of a node: most sandboxes wait for their agent most of the time.
	CPUOvercommit = 64
	// MemoryOvercommit is how much memory is promised for each byte of a node's: machines share their template's, and touch a part of
	// their own. The node itself refuses a machine for which it has no memory at that moment.
	MemoryOvercommit = 4
)

// Check refuses a machine that no node can have, with shape_unavailable and the field; and one for which there's no room, with
// capacity_exhausted. A node that has never called has none: unavailable.
func Check(room record.Room, shape record.Shape) error {
	switch f := room.Facts; {
	case f.CPUs == 0 || f.MemoryBytes == 0:
		return space.Errorf(space.CodeUnavailable, "the node hasn't said yet what it has: try again in a moment")
	case shape.VCPUs > f.CPUs:
		return unavailable("vcpus", "is %d: the node has %d CPUs, and a sandbox has at most as many", shape.VCPUs, f.CPUs)
	case shape.MemoryBytes > f.MemoryBytes:
		return unavailable("memory_mb", "is %d MiB: the node has %d MiB, and a sandbox has at most as much", shape.MemoryMiB(), f.MemoryBytes/record.MiB)
	case room.Load.VCPUs+uint64(shape.VCPUs) > uint64(f.CPUs)*CPUOvercommit:
		return exhausted("vCPUs", room.Load.VCPUs, uint64(f.CPUs)*CPUOvercommit, "")
	case room.Load.MemoryBytes+shape.MemoryBytes > f.MemoryBytes*MemoryOvercommit:
		return exhausted("memory", room.Load.MemoryBytes/record.MiB, f.MemoryBytes/record.MiB*MemoryOvercommit, " MiB")
	}
	return nil
}

func unavailable(field, format string, args ...any) error {
	e := space.Errorf(space.CodeShapeUnavailable, format, args...)
	e.Field = field
	return e
}

func exhausted(what string, load, most uint64, unit string) error {
	return space.Errorf(space.CodeCapacity, "the node's running sandboxes have %d%s of its %d%s of %s: stop or delete some, or ask for less",
		load, unit, most, unit, what)
}
