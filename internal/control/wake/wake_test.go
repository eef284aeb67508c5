package wake_test

import (
	"sync"
	"testing"

	"github.com/space-platform/space/internal/control/wake"
)

func TestRingReachesItsListenersOnly(t *testing.T) {
	var b wake.Bell
	mine, stop := b.Listen("op_1")
	defer stop()
	other, stopOther := b.Listen("op_2")
	defer stopOther()
	b.Ring("op_1", "op_3")
	b.Ring("op_1") // doesn't wait for the listener
	<-mine
	select {
	case <-mine:
		t.Error("two rings before a read are one call")
	case <-other:
		t.Error("another key's listener was woken")
	default:
	}
}

func TestStoppedListenerIsForgotten(t *testing.T) {
	var b wake.Bell
	rung, stop := b.Listen("op_1")
	stop()
	b.Ring("op_1")
	select {
	case <-rung:
		t.Error("a stopped listener was woken")
	default:
	}
}

func TestConcurrentUse(t *testing.T) {
	var b wake.Bell
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				rung, stop := b.Listen("k")
				b.Ring("k")
				<-rung
				stop()
			}
		})
	}
	wg.Wait()
}
