package main

import "testing"

func TestPercentileIsASample(t *testing.T) {
	s := []float64{5, 1, 4, 2, 3}
	for p, want := range map[float64]float64{1: 1, 50: 3, 90: 5, 99: 5, 100: 5} {
		if got := percentile(s, p); got != want {
			t.Errorf("p%v = %v, want %v", p, got, want)
		}
	}
	if percentile(nil, 50) != 0 {
		t.Error("no samples must give 0")
	}
}

func TestCompare(t *testing.T) {
	r := compare("x", []float64{20, 30, 40}, []float64{10, 10, 15})
	if *r.Ratio != 3 || *r.OverBare != 20 || r.N != 3 {
		t.Errorf("got %+v", r)
	}
	if alone := compare("x", []float64{1}, nil); alone.Ratio != nil || alone.OverBare != nil {
		t.Error("without bare samples there is nothing to compare with")
	}
}
