package telemetry

import (
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	const said = `# TYPE space_host_pool_slots gauge
space_host_pool_slots{state="waiting",shape="1"} 2
space_host_pool_slots{state="waiting",shape="2"} 4
space_host_pool_slots{state="making",shape="1"} 1
# TYPE space_host_pool_slots_other gauge
space_host_pool_slots_other{state="making"} 7
# TYPE space_starts_total counter
space_starts_total 3
`
	for _, c := range []struct {
		metric string
		labels map[string]string
		want   float64
	}{
		{"space_host_pool_slots", nil, 7},
		{"space_host_pool_slots", map[string]string{"state": "waiting"}, 6},
		{"space_host_pool_slots", map[string]string{"state": "waiting", "shape": "2"}, 4},
		{"space_host_pool_slots", map[string]string{"state": "gone"}, 0},
		{"space_starts_total", nil, 3},
		{"space_nothing", nil, 0},
	} {
		got, err := Sum(strings.NewReader(said), c.metric, c.labels)
		if err != nil || got != c.want {
			t.Errorf("%s %v: %v, %v, want %v", c.metric, c.labels, got, err, c.want)
		}
	}
	if _, err := Sum(strings.NewReader("<html>"), "x", nil); err == nil {
		t.Error("what isn't the format was read")
	}
}
