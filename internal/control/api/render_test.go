package api

import (
	"testing"
	"time"

	"github.com/space-platform/space/internal/control/record"
)

// TestOutputOfASessionIsKnownOrAbsent: that a lost one has written nothing is nothing that is known.
func TestOutputOfASessionIsKnownOrAbsent(t *testing.T) {
	code := int32(0)
	for name, c := range map[string]struct {
		end  *record.SessionEnd
		want int64 // -1: absent
	}{
		"running": {nil, -1}, "silent": {&record.SessionEnd{Code: &code}, 0}, "ended": {&record.SessionEnd{Code: &code, OutputBytes: 7}, 7},
		"lost": {&record.SessionEnd{Lost: true}, -1}, "lost, with a log": {&record.SessionEnd{Lost: true, OutputBytes: 7}, 7},
	} {
		got := int64(-1)
		if out := renderSession(record.Session{CreatedAt: time.Unix(1, 0), End: c.end}); out.OutputBytes != nil {
			got = *out.OutputBytes
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
