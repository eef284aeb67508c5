package access

import (
	"testing"

	"github.com/space-platform/space/internal/control/wake"
)

// TestAProjectWaitsInBounds: one more than may is told so at once, other projects wait, and an ended wait makes room.
func TestAProjectWaitsInBounds(t *testing.T) {
	var all Waits
	var bell wake.Bell
	next := func(w *Wait) bool {
		news := bell.Watch("sbx_1")
		defer news.Close()
		return w.Next(t.Context(), news)
	}
	var mine []*Wait
	for range maxWaits {
		w := all.Of("prj_1")
		if !next(w) || !next(w) { // the second time it's counted already
			t.Fatalf("%d wait, and no more", len(mine))
		}
		mine = append(mine, w)
	}
	more, other := all.Of("prj_1"), all.Of("prj_2")
	if next(more) || !next(other) {
		t.Error("the project's share is no bound, or bounds another one")
	}
	more.End() // which never waited
	mine[0].End()
	mine[0].End()
	if !next(more) || next(all.Of("prj_1")) {
		t.Error("one that ended made no room, or room for two")
	}
	for _, w := range append(mine, more, other) {
		w.End()
	}
	if len(all.by) != 0 {
		t.Errorf("left %v", all.by)
	}
}
