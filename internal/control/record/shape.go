package record

import "fmt"

// MiB is the unit of memory and disk in the public API.
const MiB = 1 << 20

// Shape is the size of a machine. A snapshot fixes it.
type Shape struct {
	VCPUs       uint32
	MemoryBytes uint64
	DiskBytes   uint64
}

// MemoryMiB is the size of the memory in the API's unit.
func (s Shape) MemoryMiB() int { return int(s.MemoryBytes / MiB) }

// DiskMiB is the size of the disk in the API's unit.
func (s Shape) DiskMiB() int { return int(s.DiskBytes / MiB) }

// String says vCPUs and memory as a user would.
func (s Shape) String() string { return fmt.Sprintf("%d vCPUs with %d MiB", s.VCPUs, s.MemoryMiB()) }
