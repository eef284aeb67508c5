package placement_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/placement"
	"github.com/space-platform/space/internal/control/record"
)

func TestCheck(t *testing.T) {
	node := record.Facts{CPUs: 2, MemoryBytes: 1 << 30}
	twice := record.Facts{CPUs: 2, MemoryBytes: 1 << 30, SandboxMemoryBytes: 2 << 30}
	small := record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 1}
	beside := record.Facts{CPUs: 2, MemoryBytes: 1 << 30, SandboxMemoryBytes: 600 << 20, OverheadBytes: 20 << 20, ReservedBytes: 4 << 20} // four of 128 MiB and their VMMs fit
	for _, x := range []struct {
		name  string
		room  record.Room
		shape record.Shape
		code  space.Code
		field string
	}{
		{name: "fits", room: record.Room{Facts: node}, shape: small},
		{name: "all that it has for sandboxes", room: record.Room{Facts: node}, shape: record.Shape{VCPUs: 2, MemoryBytes: 1<<30 - 1<<27}},
		{name: "what the host needs itself", room: record.Room{Facts: node}, shape: record.Shape{VCPUs: 2, MemoryBytes: 1<<30 - 1<<27 + 1}, code: space.CodeShapeUnavailable, field: "memory_mb"},
		{name: "more vCPUs than CPUs", room: record.Room{Facts: node}, shape: record.Shape{VCPUs: 3, MemoryBytes: 1}, code: space.CodeShapeUnavailable, field: "vcpus"},
		{name: "more memory", room: record.Room{Facts: node}, shape: record.Shape{VCPUs: 1, MemoryBytes: 1<<30 + 1}, code: space.CodeShapeUnavailable, field: "memory_mb"},
		{name: "the last vCPU", room: record.Room{Facts: node, Load: record.Load{VCPUs: 127}}, shape: small},
		{name: "one too many", room: record.Room{Facts: node, Load: record.Load{VCPUs: 128}}, shape: small, code: space.CodeCapacity},
		{name: "the last memory", room: record.Room{Facts: node, Load: record.Load{MemoryBytes: 1<<30 - 2*128<<20}}, shape: small},
		{name: "too much memory", room: record.Room{Facts: node, Load: record.Load{MemoryBytes: 1<<30 - 2*128<<20 + 1}}, shape: small, code: space.CodeCapacity},
		{name: "a node that promises it twice", room: record.Room{Facts: twice, Load: record.Load{MemoryBytes: 2<<30 - 128<<20}}, shape: small},
		{name: "more than twice", room: record.Room{Facts: twice, Load: record.Load{MemoryBytes: 2<<30 - 128<<20 + 1}}, shape: small, code: space.CodeCapacity},
		{name: "more than there is of what is promised twice", room: record.Room{Facts: twice}, shape: record.Shape{VCPUs: 1, MemoryBytes: 1<<30 + 1}, code: space.CodeShapeUnavailable, field: "memory_mb"},
		{name: "the last memory with what VMMs take", room: record.Room{Facts: beside, Load: record.Load{Machines: 3, MemoryBytes: 3 * 128 << 20}}, shape: small},
		{name: "what the VMM takes", room: record.Room{Facts: beside, Load: record.Load{Machines: 3, MemoryBytes: 3*128<<20 + 4<<20 + 1}}, shape: small, code: space.CodeCapacity},
		{name: "what other VMMs take", room: record.Room{Facts: beside, Load: record.Load{Machines: 4, MemoryBytes: 3 * 128 << 20}}, shape: small, code: space.CodeCapacity},
		{name: "all that there is beside its VMM", room: record.Room{Facts: beside}, shape: record.Shape{VCPUs: 1, MemoryBytes: 576 << 20}},
		{name: "what is reserved at the moment", room: record.Room{Facts: beside}, shape: record.Shape{VCPUs: 1, MemoryBytes: 576<<20 + 1}, code: space.CodeCapacity},
		{name: "more than there is beside its VMM", room: record.Room{Facts: beside}, shape: record.Shape{VCPUs: 1, MemoryBytes: 580<<20 + 1}, code: space.CodeShapeUnavailable, field: "memory_mb"},
		{name: "unknown node", shape: small, code: space.CodeUnavailable},
	} {
		err := placement.Check(x.room, x.shape)
		var e *space.Error
		if errors.As(err, &e); space.CodeOf(err) != x.code || x.field != "" && e.Field != x.field {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// TestNothingNewOnAFullVolume refuses what would begin, with what to do; what is there already is the node's to refuse, and a warning refuses nothing.
func TestNothingNewOnAFullVolume(t *testing.T) {
	shape := record.Shape{VCPUs: 1, MemoryBytes: 1}
	for pressure, code := range map[record.DiskPressure]space.Code{record.DiskFine: "", record.DiskWarning: "", record.DiskRefusing: space.CodeCapacity} {
		room := record.Room{Facts: record.Facts{CPUs: 1, MemoryBytes: 1 << 30, DiskBytes: 1000 << 20, DiskFreeBytes: 47 << 20, DiskPressure: pressure}}
		if err := placement.CheckNew(room, shape, 1); space.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), "full to 95 %, and 47 MiB are free: delete snapshots") {
			t.Errorf("%q: %v", pressure, err)
		}
		if err := placement.Check(room, shape); err != nil {
			t.Errorf("%q: what is there already: %v", pressure, err)
		}
	}
}

// TestSaysHowManyFit asks for more than there's room for: the error counts those that run already, not those that are asked for, and says how many it could be, by
// whatever is scarcer.
func TestSaysHowManyFit(t *testing.T) {
	shape := record.Shape{VCPUs: 2, MemoryBytes: 128 << 20}
	facts := record.Facts{CPUs: 2, MemoryBytes: 1 << 30} // 128 vCPUs, and 896 MiB for sandboxes
	for _, x := range []struct {
		load  record.Load
		count int
		want  string // of the error; empty: there's room
	}{
		{record.Load{MemoryBytes: 256 << 20}, 5, ""},
		{record.Load{MemoryBytes: 256 << 20}, 6, "have 256 of its 896 MiB of memory, and 6 more of 128 MiB each are asked for, of which 5 fit: "},
		{record.Load{VCPUs: 119, MemoryBytes: 256 << 20}, 6, "have 119 of its 128 vCPUs, and 6 more of 2 vCPUs each are asked for, of which 4 fit: "},
		{record.Load{MemoryBytes: 2 << 30}, 2, "have 2048 of its 896 MiB of memory, and 2 more of 128 MiB each are asked for, of which 0 fit: "},
		{record.Load{MemoryBytes: 896 << 20}, 1, "have 896 of its 896 MiB of memory: "},
	} {
		err := placement.CheckNew(record.Room{Facts: facts, Load: x.load}, shape, x.count)
		if (err == nil) != (x.want == "") || err != nil && (space.CodeOf(err) != space.CodeCapacity || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%d beside %+v: %v, want %q", x.count, x.load, err, x.want)
		}
	}
}

// TestNeverOvercommitsMore places machines until no more fit, and holds the sum to the factors.
func TestNeverOvercommitsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := record.Room{Facts: record.Facts{CPUs: rapid.Uint32Range(1, 8).Draw(t, "cpus"), MemoryBytes: rapid.Uint64Range(1, 1<<36).Draw(t, "memory"),
			OverheadBytes: rapid.Uint64Range(0, 1<<28).Draw(t, "overhead"), ReservedBytes: rapid.Uint64Range(0, 1<<32).Draw(t, "reserved")}}
		for range 300 {
			shape := record.Shape{VCPUs: rapid.Uint32Range(1, 32).Draw(t, "vcpus"), MemoryBytes: rapid.Uint64Range(1, 1<<36).Draw(t, "bytes")}
			if placement.Check(room, shape) == nil {
				room = room.With(shape)
			}
		}
		machines := room.Load.MemoryBytes + room.Load.Machines*room.Facts.OverheadBytes
		if room.Load.VCPUs > uint64(room.Facts.CPUs)*placement.CPUOvercommit || room.Load.Machines > 0 && machines+room.Facts.ReservedBytes > room.Facts.SandboxMemory() {
			t.Fatalf("%+v", room)
		}
	})
}
