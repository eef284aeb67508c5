// Package placement decides whether a machine goes to a node. A snapshot is on the node that made it, so there's nothing to choose yet:
// only whether the node can have such a machine at all, and whether it has room for one more.
package placement

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// CPUOvercommit is how many vCPUs are promised for each CPU of a node: most sandboxes wait for their agent most of the time.
const CPUOvercommit = 64

// Check refuses a machine that no node can have, with shape_unavailable and the field; and one for which there's no room, with
// capacity_exhausted. A node that has never called has none: unavailable.
//
// Memory isn't promised twice, unless the node says so: machines share their template's and touch a part of their own, but each may touch all of it, and then the host
// must have it. A paused machine counts, since it may go on at any time; a suspended one doesn't. What the node keeps for itself and whether it has memory at that
// moment is the node's to say.
func Check(room record.Room, shape record.Shape) error {
	f := room.Facts
	memory := f.SandboxMemory()
	switch {
	case f.CPUs == 0 || f.MemoryBytes == 0:
		return space.Errorf(space.CodeUnavailable, "the node hasn't said yet what it has: try again in a moment")
	case shape.VCPUs > f.CPUs:
		return unavailable("vcpus", "is %d: the node has %d CPUs, and a sandbox has at most as many", shape.VCPUs, f.CPUs)
	case shape.MemoryBytes > memory || shape.MemoryBytes > f.MemoryBytes:
		return unavailable("memory_mb", "is %d MiB: the node has %d MiB for sandboxes, and one has at most as much", shape.MemoryMiB(), min(memory, f.MemoryBytes)/record.MiB)
	case room.Load.VCPUs+uint64(shape.VCPUs) > uint64(f.CPUs)*CPUOvercommit:
		return exhausted("vCPUs", room.Load.VCPUs, uint64(f.CPUs)*CPUOvercommit, "")
	case room.Load.MemoryBytes+shape.MemoryBytes > memory:
		return exhausted("memory", room.Load.MemoryBytes/record.MiB, memory/record.MiB, " MiB")
	}
	return nil
}

// CheckDisk refuses what is new to a node whose volume is almost full, with capacity_exhausted. What is there already goes on.
func CheckDisk(room record.Room) error {
	if room.Facts.DiskPressure != record.DiskRefusing {
		return nil
	}
	return space.Errorf(space.CodeCapacity, "%s", room.Facts.Advice())
}

// CheckNew refuses a machine as Check does, and one that is new to the node as CheckDisk does.
func CheckNew(room record.Room, shape record.Shape) error {
	if err := CheckDisk(room); err != nil {
		return err
	}
	return Check(room, shape)
}

func unavailable(field, format string, args ...any) error {
	e := space.Errorf(space.CodeShapeUnavailable, format, args...)
	e.Field = field
	return e
}

func exhausted(what string, load, most uint64, unit string) error {
	return space.Errorf(space.CodeCapacity, "the node's running and paused sandboxes have %d%s of its %d%s of %s: suspend, stop or delete some, or ask for less",
		load, unit, most, unit, what)
}
