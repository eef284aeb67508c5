package vmmtest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
)

// TestSilentGuest: a check begins anew for a guest that has stopped answering, as long as there's one to spare, and for no other failure.
func TestSilentGuest(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		spare int32
		runs  int
	}{
		"an emulated guest":         {link.ErrNoAnswer, maxSilent, maxSilent + 1},
		"a guest that runs on KVM":  {link.ErrNoAnswer, 0, 1},
		"a guest that has hung up":  {net.ErrClosed, maxSilent, 1},
		"a machine that has ended":  {vmm.ErrGone, maxSilent, 1},
		"a step that took too long": {context.DeadlineExceeded, maxSilent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{spare: new(atomic.Int32)}
			s.spare.Store(c.spare)
			runs := 0
			s.check(t, check{run: func(t *testing.T, s *suite) {
				runs++
				s.giveUp(t, &guest{Machine: fallen{}}, fmt.Errorf("greet: %w", c.err))
			}})
			if runs != c.runs {
				t.Errorf("the check ran %d times, want %d", runs, c.runs)
			}
		})
	}
}

// fallen is a machine that says nothing.
type fallen struct{ vmm.Machine }

func (fallen) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (fallen) LastWords() string { return "" }
