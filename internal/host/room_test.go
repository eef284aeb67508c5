package host

import (
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/meminfo"
)

func TestPromisable(t *testing.T) {
	for _, x := range []struct {
		total      int64
		overcommit int
		want       int64
	}{{8 << 30, 0, 7 << 30}, {8 << 30, 1, 7 << 30}, {8 << 30, 3, 21 << 30}, {4 << 30, 1, 4<<30 - hostLeast}, {hostLeast / 2, 1, 0}, {0, 1, 0}} {
		if got := promisable(x.total, x.overcommit); got != x.want {
			t.Errorf("of %d, %d times: %d, want %d", x.total, x.overcommit, got, x.want)
		}
	}
}

func TestRoom(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		free int64 // of 4 GiB
		m    meminfo.Facts
		want space.Code
	}{
		"enough":                          {gib, meminfo.Facts{Total: 8 * gib, Available: gib}, ""},
		"just enough":                     {4 * gib / percent * 6, meminfo.Facts{Total: 8 * gib, Available: minAvailable}, ""},
		"a full volume":                   {4*gib/percent*5 - 1, meminfo.Facts{Total: 8 * gib, Available: gib}, space.CodeCapacity},
		"no memory":                       {gib, meminfo.Facts{Total: 8 * gib, Available: minAvailable - 1}, space.CodeCapacity},
		"too little of a large machine's": {gib, meminfo.Facts{Total: 64 * gib, Available: gib}, space.CodeCapacity},
		"a kernel that doesn't tell":      {gib, meminfo.Facts{}, ""},
	} {
		if err := roomIn(disk.Usage{Bytes: 4 * gib, FreeBytes: c.free}, c.m); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
