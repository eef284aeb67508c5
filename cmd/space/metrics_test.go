package main

import "testing"

func TestSumOfAMetric(t *testing.T) {
	const said = `# TYPE space_host_pool_slots gauge
space_host_pool_slots{state="waiting"} 2
space_host_pool_slots{state="making"} 1
space_host_pool_slots_other{state="making"} 7
`
	if n := sum([]byte(said), "space_host_pool_slots"); n != 3 {
		t.Errorf("the sum is %d, want 3", n)
	}
	if n := sum(nil, "space_host_pool_slots"); n != 0 {
		t.Errorf("of nothing it is %d", n)
	}
}
