package main

import "testing"

func TestSumOfAMetric(t *testing.T) {
	const said = `# TYPE space_host_pool_slots gauge
space_host_pool_slots{template="tpl_a"} 2
space_host_pool_slots{template="tpl_b"} 1
space_host_pool_slots_other{template="tpl_b"} 7
`
	if n := sum([]byte(said), "space_host_pool_slots"); n != 3 {
		t.Errorf("the sum is %d, want 3", n)
	}
	if n := sum(nil, "space_host_pool_slots"); n != 0 {
		t.Errorf("of nothing it is %d", n)
	}
}
