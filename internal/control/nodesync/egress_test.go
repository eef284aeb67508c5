package nodesync

import (
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// noted is what activity is told.
type noted struct{ seen, sent map[string]time.Time }

func (n noted) Seen(sandbox string, at time.Time) { n.seen[sandbox] = at }
func (n noted) Sent(sandbox string, at time.Time) { n.sent[sandbox] = at }

// TestWhatIsSentIsTold reports figures: enough bytes between two of them are activity, a kernel's own few aren't, nor is a counter that begins anew.
func TestWhatIsSentIsTold(t *testing.T) {
	a := noted{map[string]time.Time{}, map[string]time.Time{}}
	n := NewNode("n", nil, a, nil)
	route := space.Route{Sandbox: "sbx_1", Execution: "exe_1", Epoch: 1}
	began := time.Now().Add(-time.Minute)
	say := func(after time.Duration, sent uint64) {
		r := Report{Complete: true, Executions: []ExecutionReport{{Route: route, State: space.ExecutionRunning, Figures: &record.Figures{At: began.Add(after), SentBytes: sent}}}}
		n.figures.take(r)
		n.noteActivity(r)
	}
	for _, x := range []struct {
		name string
		at   time.Duration
		sent uint64
		told time.Duration // 0: not
	}{
		{"the first figures", 0, 1 << 30, 0},
		{"nothing more", 10 * time.Second, 1 << 30, 0},
		{"a kernel's few", 20 * time.Second, 1<<30 + minEgress - 1, 0},
		{"something", 30 * time.Second, 1<<30 + 2*minEgress - 1, 30 * time.Second},
		{"the same figures again", 30 * time.Second, 1<<30 + 2*minEgress - 1, 30 * time.Second},
		{"another count", 40 * time.Second, 5, 0},
	} {
		clear(a.sent)
		say(x.at, x.sent)
		if at, told := a.sent["sbx_1"]; told != (x.told > 0) || told && !at.Equal(began.Add(x.told)) {
			t.Errorf("%s: %v at %s", x.name, told, at.Sub(began))
		}
	}
	if len(a.seen) > 0 {
		t.Errorf("something was done with it: %v", a.seen)
	}
}
