package execution

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

func TestFiguresAreTakenSeldomAndReported(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.t = t
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		if u := table.Reports()[0].Usage; u != nil {
			t.Errorf("at once it's %v", u)
		}
		time.Sleep(usageInterval + time.Second)
		u := table.Reports()[0].Usage
		if u.GetCpuSeconds() != 0.5 || u.GetMemoryBytes() != 1234 || u.GetDiskBytes() != 77 || u.GetReceivedBytes() != 2 || u.GetSentBytes() != 1 || u.GetGuest().GetProcesses() != 3 {
			t.Errorf("it's %v", u)
		}
		for range 20 {
			if _, err := table.Usage(t.Context(), o.Route); err != nil {
				t.Error(err)
			}
			time.Sleep(usageAge)
		}
		if age := time.Since(table.Reports()[0].Usage.GetAt().AsTime()); age > 2*usageAge {
			t.Errorf("the newest is %s old", age)
		}
		if r.measured > 4 {
			t.Errorf("in 30 seconds the guest was asked %d times", r.measured)
		}
		stop(t, table, o.Route)
		if u := table.Reports()[0].Usage; u != nil {
			t.Errorf("of a stopped one: %v", u)
		}
		if _, err := table.Usage(t.Context(), o.Route); space.CodeOf(err) != space.CodeConflict {
			t.Errorf("asked for a stopped one's: %v", err)
		}
		remove(t, table, o.Route)
		table.Close()
	})
}

func TestGuestsFiguresAreChecked(t *testing.T) {
	good := &sandboxv1.GuestUsage{MemoryTotalBytes: 2, MemoryUsedBytes: 1, DiskTotalBytes: 2, DiskUsedBytes: 1, Processes: 1, Load: 0.5}
	if checkGuestUsage(good) == nil {
		t.Error("good ones were refused")
	}
	for name, bad := range map[string]*sandboxv1.GuestUsage{
		"more used than there is": {MemoryTotalBytes: 1, MemoryUsedBytes: 2},
		"a fuller disk":           {DiskUsedBytes: 1},
		"a huge memory":           {MemoryTotalBytes: 1 << 60},
		"no number":               {Load: math.NaN()},
		"infinite":                {Load: math.Inf(1)},
		"negative":                {Load: -1},
		"many processes":          {Processes: 1 << 30},
	} {
		if checkGuestUsage(bad) != nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
