package tsc

import "testing"

func TestTwoMeasurementsAgree(t *testing.T) {
	a, err := KHz()
	if err != nil {
		t.Fatal(err)
	}
	b, err := KHz()
	if err != nil {
		t.Fatal(err)
	}
	const tolerance = 1000 // parts in a million; what a driver allows is its own affair
	if d := a - b; d*d > (a/1_000_000*tolerance+1)*(a/1_000_000*tolerance+1) {
		t.Errorf("measured %d kHz, then %d kHz", a, b)
	}
	t.Logf("%d kHz, %d kHz", a, b)
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, c := range []struct {
		cycles uint64
		nanos  int64
	}{{0, 1e9}, {1e9, 0}, {1e9, -5}, {1 << 63, 1}, {1, 1e9}} {
		if k, err := khz(c.cycles, c.nanos); err == nil {
			t.Errorf("khz(%d, %d) = %d, want an error", c.cycles, c.nanos, k)
		}
	}
	if k, err := khz(2_600_000_000, 1e9); err != nil || k != 2_600_000 {
		t.Errorf("khz of 2.6 GHz = %d, %v", k, err)
	}
}
