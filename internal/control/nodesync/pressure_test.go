package nodesync

import (
	"testing"
	"time"

	"github.com/space-platform/space/internal/control/record"
)

func TestPressure(t *testing.T) {
	now := time.Now()
	for _, x := range []struct {
		name              string
		memory, available uint64
		ago               time.Duration
		want              bool
	}{
		{name: "plenty", memory: 1000, available: 500},
		{name: "just enough", memory: 1000, available: 100},
		{name: "too little", memory: 1000, available: 99, want: true},
		{name: "not said", memory: 1000},
		{name: "said long ago", memory: 1000, available: 1, ago: pressureKept},
	} {
		var p pressure
		p.take(Report{Facts: record.Facts{MemoryBytes: x.memory, MemoryAvailableBytes: x.available}}, now.Add(-x.ago))
		if got := p.pressed(now); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}
