package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/meminfo"
)

func TestLevelsOfPressure(t *testing.T) {
	for free, want := range map[int64]string{100: pressureNone, 11: pressureNone, 10: pressureWarning, 6: pressureWarning, 5: pressureRefusing, 0: pressureRefusing} {
		if got := levelOf(disk.Usage{Bytes: 100, FreeBytes: free}); got != want {
			t.Errorf("%d of 100 free: %q, want %q", free, got, want)
		}
	}
}

func TestSmallChangesArentTold(t *testing.T) {
	told := 0
	p := &pressure{facts: &controlv1.NodeFacts{Driver: "test"}, changed: func() { told++ }}
	m := meminfo.Facts{Total: 1000, Available: 500}
	for _, c := range []struct {
		free, available int64
		told            bool
	}{{5000, 500, true}, {4950, 495, false}, {4899, 495, true}, {4899, 480, true}, {1001, 480, true}, {1000, 480, true}} {
		before := told
		m.Available = c.available
		p.tell(disk.Usage{Bytes: 10000, FreeBytes: c.free}, m)
		if (told > before) != c.told {
			t.Errorf("%d and %d free, told: %v", c.free, c.available, told > before)
		}
	}
	if f := p.Facts(); f.GetDriver() != "test" || f.GetDiskFreeBytes() != 1000 || f.GetDiskPressure() != pressureWarning || f.GetMemoryAvailableBytes() != 480 {
		t.Errorf("the facts are %v", f)
	}
}

// TestRoomIsSeenSoon: a volume that is nearly full is looked at each second, so that whoever has made room isn't refused for what was.
func TestRoomIsSeenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		p := &pressure{facts: &controlv1.NodeFacts{}, changed: func() {}}
		began := time.Now()
		var at []time.Duration
		p.watch(ctx, func() error {
			at = append(at, time.Since(began))
			free := map[int]int64{1: 3, 2: 3, 3: 8, 4: 50}[len(at)]
			p.tell(disk.Usage{Bytes: 100, FreeBytes: free}, meminfo.Facts{})
			if len(at) == 5 {
				end()
			}
			return errors.New("what goes wrong ends nothing")
		})
		if want := []time.Duration{0, lookPressed, 2 * lookPressed, 3 * lookPressed, 3*lookPressed + lookInterval}; !slices.Equal(at, want) {
			t.Errorf("it looks after %v, want %v", at, want)
		}
	})
}
