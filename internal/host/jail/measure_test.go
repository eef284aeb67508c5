package jail_test

import "testing"

func TestMeasure(t *testing.T) {
	j, s := setup(t), spec(1)
	if _, err := j.Measure(s); err == nil {
		t.Error("an enclosure that isn't there was measured")
	}
	sleep(t, enclose(t, j, s))
	u, err := j.Measure(s)
	if err != nil || u.PIDs < 1 || u.MemoryBytes <= 0 || u.CPUNanos <= 0 || u.Received != 0 {
		t.Errorf("it's %+v, %v", u, err)
	}
}
