package space_test

import (
	"strings"
	"testing"

	space "github.com/space-platform/space"
)

// TestVolumeFull: whoever says it says what is full, what goes on, and what to do. That a suspend works isn't said to one that didn't.
func TestVolumeFull(t *testing.T) {
	for _, x := range []struct{ free, bytes uint64 }{{20 << 20, 1000 << 20}, {0, 0}, {2, 1}} {
		e := space.VolumeFull(x.free, x.bytes)
		for _, says := range []string{"the node's volume is full", "delete snapshots", "no sandboxes, templates and snapshots are made", "what runs", "deletes"} {
			if e.Code != space.CodeCapacity || !strings.Contains(e.Message, says) {
				t.Errorf("%+v: %q isn't in %v", x, says, e)
			}
		}
		if strings.Contains(e.Message, "suspends") != (x.bytes > 0) || strings.Contains(e.Message, "98 %, and 20 MiB") != (x.bytes > 1) {
			t.Errorf("%+v: %v", x, e)
		}
	}
}
