package nodesync_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// measured is a report of one running execution, some seconds after a moment.
func measured(r space.Route, seconds int, cpu float64) nodesync.Report {
	out := running(r)
	out.Executions[0].Figures = &record.Figures{At: now.Add(time.Duration(seconds) * time.Second), CPUSeconds: cpu}
	return out
}

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route, other := newBubble(), newRoute(), newRoute()
		for _, x := range []struct {
			name    string
			report  nodesync.Report
			ok      bool
			cpu     float64
			percent float64 // negative: not a number
		}{
			{"none yet", running(route), false, 0, -1},
			{"the first", measured(route, 0, 5), true, 5, -1},
			{"the same again", measured(route, 0, 5), true, 5, -1},
			{"a report without any", running(route), true, 5, -1},
			{"the second", measured(route, 10, 7.5), true, 7.5, 25},
			{"an older one", measured(route, 5, 6), true, 7.5, 25},
			{"less than before", measured(route, 20, 1), true, 1, 0},
			{"two CPUs at work", measured(route, 21, 3), true, 3, 200},
			{"an incomplete report without it", nodesync.Report{}, true, 3, 200},
			{"another's report", measured(other, 1, 1), false, 0, -1},
			{"it's back", measured(route, 30, 9), true, 9, -1},
			{"it has ended", nodesync.Report{Complete: true, Executions: []nodesync.ExecutionReport{{Route: route, State: space.ExecutionStopped, Figures: &record.Figures{At: now.Add(time.Hour)}}}}, false, 0, -1},
		} {
			b.call(t.Context(), x.report, 0)
			f, percent, ok := b.node.Figures(route)
			if ok != x.ok || ok && f.CPUSeconds != x.cpu || math.IsNaN(percent) != (x.percent < 0) || x.percent >= 0 && percent != x.percent {
				t.Errorf("%s: %+v, %v, %v", x.name, f, percent, ok)
			}
		}
	})
}

// TestFiguresAreBounded reports many executions, one after another: only the last report's are kept.
func TestFiguresAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nodesync.NewFigures()
		var last []space.Route
		for range rapid.IntRange(1, 20).Draw(t, "reports") {
			last = nil
			report := nodesync.Report{Complete: true}
			for i := range rapid.IntRange(0, 5).Draw(t, "executions") {
				r := newRoute()
				last = append(last, r)
				report.Executions = append(report.Executions, measured(r, i, 1).Executions...)
			}
			n.Take(report)
		}
		if n.Len() != len(last) {
			t.Fatalf("%d are kept of %d", n.Len(), len(last))
		}
	})
}
