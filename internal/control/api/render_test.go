package api

import (
	"testing"
	"time"

	space "github.com/space-platform/space"
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

// TestALifetimeThatIsOverIsNotShown: a deadline in the past would be one that is still to be met.
func TestALifetimeThatIsOverIsNotShown(t *testing.T) {
	at := time.Unix(100, 0)
	for _, x := range []struct {
		state    space.ExecutionState
		action   record.Expiry
		deadline int64
		shown    bool
	}{
		{space.ExecutionSuspended, record.ExpiryStop, 99, false},
		{space.ExecutionSuspended, record.ExpirySuspend, 99, false},
		{space.ExecutionSuspended, record.ExpiryDelete, 99, true}, // it's about to be done
		{space.ExecutionSuspended, record.ExpiryStop, 101, true},
		{space.ExecutionStopped, record.ExpirySuspend, 99, false},
		{space.ExecutionRunning, record.ExpiryStop, 99, true},
	} {
		box := record.Sandbox{Desired: record.DesiredRunning, Execution: record.Execution{Observed: x.state}, Lifetime: &record.Lifetime{OnExpiry: x.action, Deadline: time.Unix(x.deadline, 0)}}
		if got := renderLifetime(box, at); (got != nil) != x.shown {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}
