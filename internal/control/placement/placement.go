// Package placement decides whether a machine goes to a node. A snapshot is on the node that made it, so there's nothing to choose yet:
// only whether the node can have such a machine at all, and whether it has room for one more.
package placement

import (
	"fmt"
	"math"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// CPUOvercommit is how many vCPUs are promised for each CPU of a node: most sandboxes wait for their agent most of the time.
const CPUOvercommit = 64

// Check refuses a machine that no node can have, with shape_unavailable and the field; and one for which there's no room, with
// capacity_exhausted. A node that has never called has none: unavailable.
//
// Memory isn't promised twice, unless the node says so: machines share their template's and touch a part of their own, but each may touch all of it, and then the host
// must have it, and what its VMM takes beside. A paused machine counts, since it may go on at any time; a suspended one doesn't. What the node keeps for itself and whether
// it has memory at that moment is the node's to say; so is the last word, since what it has reserved for other things may have changed since it told.
func Check(room record.Room, shape record.Shape) error { return check(room, shape, 1) }

// check is Check for as many of them. If not all of them have room, the error says how many do.
func check(room record.Room, shape record.Shape, count int) error {
	f := room.Facts
	memory := f.SandboxMemory()
	switch {
	case f.CPUs == 0 || f.MemoryBytes == 0:
		return space.Errorf(space.CodeUnavailable, "the node hasn't said yet what it has: try again in a moment")
	case shape.VCPUs > f.CPUs:
		return unavailable("vcpus", "is %d: the node has %d CPUs, and a sandbox has at most as many", shape.VCPUs, f.CPUs)
	case shape.MemoryBytes+f.OverheadBytes > memory || shape.MemoryBytes+f.OverheadBytes > f.MemoryBytes:
		most := min(memory, f.MemoryBytes)
		return unavailable("memory_mb", "is %d MiB: the node has %d MiB for sandboxes, and one has at most %d", shape.MemoryMiB(), most/record.MiB, (most-min(f.OverheadBytes, most))/record.MiB)
	}
	cpus := resource{unit: "vCPUs", size: 1, load: room.Load.VCPUs, most: uint64(f.CPUs) * CPUOvercommit, each: uint64(shape.VCPUs)}
	bytes := resource{
		unit: "MiB", of: " of memory", size: record.MiB, load: room.Load.MemoryBytes + room.Load.Machines*f.OverheadBytes, most: memory - min(f.ReservedBytes, memory),
		each: shape.MemoryBytes + f.OverheadBytes,
	}
	short := cpus
	if bytes.fit() < cpus.fit() {
		short = bytes
	}
	if short.fit() < uint64(count) {
		return short.exhausted(count)
	}
	return nil
}

// CheckDisk refuses what is new to a node whose volume is almost full, with capacity_exhausted. What runs already goes on;
// whether a machine may begin for what is there already, the node says when it's to: it knows at that moment.
func CheckDisk(room record.Room) error {
	if room.Facts.DiskPressure != record.DiskRefusing {
		return nil
	}
	return space.VolumeFull(room.Facts.DiskFreeBytes, room.Facts.DiskBytes)
}

// CheckNew refuses machines of one shape that are new to the node as CheckDisk does, and those that don't all have room as Check does.
func CheckNew(room record.Room, shape record.Shape, count int) error {
	if err := CheckDisk(room); err != nil {
		return err
	}
	return check(room, shape, count)
}

func unavailable(field, format string, args ...any) error {
	e := space.Errorf(space.CodeShapeUnavailable, format, args...)
	e.Field = field
	return e
}

// resource is what the machines of a node share.
type resource struct {
	unit, of         string
	size             uint64 // of the unit
	load, most, each uint64 // what is taken, what there is, and what one more would take
}

// fit is how many more there's room for.
func (r resource) fit() uint64 {
	if r.each == 0 {
		return math.MaxUint64
	}
	return (r.most - min(r.load, r.most)) / r.each
}

func (r resource) exhausted(count int) error {
	more := ""
	if count > 1 {
		more = fmt.Sprintf(", and %d more of %d %s each are asked for, of which %d fit", count, r.each/r.size, r.unit, r.fit())
	}
	return space.Errorf(space.CodeCapacity, "the node's running and paused sandboxes have %d of its %d %s%s%s: suspend, stop or delete some, or ask for less",
		r.load/r.size, r.most/r.size, r.unit, r.of, more)
}
