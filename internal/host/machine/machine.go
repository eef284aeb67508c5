// Package machine holds what all who run a machine do alike: what its enclosure may use, and how its guest is greeted.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/vmm"
)

// What a VMM may use beside its guest's share before it's ended: more than it needs and is promised (see vmm.Capabilities).
const (
	overheadBytes = 256 << 20 // its own memory, and the page cache of its disk
	overheadCPU   = 1000      // thousandths of a CPU: it starts, and does the guest's input and output, beside the guest's processors
	maxPIDs       = 64        // threads
)

// Enclosure says what the enclosure of a machine is to be.
func Enclosure(id string, uid int, s vmm.Shape) jail.Spec {
	return jail.Spec{ID: id, UID: uid, Limits: cgroup.Limits{
		MemoryBytes: s.MemoryBytes + overheadBytes, CPUMillis: int64(s.VCPUs)*1000 + overheadCPU, PIDs: maxPIDs,
	}}
}

const (
	greetTries  = 4                // how often a guest is dialled that doesn't answer, or whose connection ends before it has answered
	firstAnswer = 15 * time.Second // for an answer over the first connection; twice as long over each further one, and over the last until the context ends
)

// Greet makes a link to a machine's guest, which has the time, a seed and its identity when Greet returns. It gives up when ctx ends or the
// machine is gone (vmm.ErrGone). A guest that was just loaded may end the connection with those that it had when it was saved: it's dialled again; and so is one that doesn't answer,
// since a VMM now and then takes a connection and passes nothing on.
func Greet(ctx context.Context, m vmm.Machine, s link.Sync) (*link.Link, error) {
	ctx, cancel := WhileRunning(ctx, m)
	defer cancel()
	for try, patience := 1, firstAnswer; ; try, patience = try+1, 2*patience {
		l, err := greetOnce(ctx, m, s, try == greetTries, patience)
		if err == nil || ctx.Err() != nil || try == greetTries || !(hungUp(err) || errors.Is(err, link.ErrNoAnswer)) {
			return l, err
		}
		slog.Warn("a guest didn't answer over a connection: it's dialled again", "execution", s.Execution, "err", err)
	}
}

// greetOnce greets over a new connection. Unless it's the last try, a guest has a time to answer in.
func greetOnce(ctx context.Context, m vmm.Machine, s link.Sync, last bool, patience time.Duration) (*link.Link, error) {
	c, err := m.DialGuest(ctx)
	if err != nil {
		return nil, err
	}
	limited := ctx
	if !last {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	l, err := link.Host(limited, c, s)
	if err != nil && (Gone(m) || ctx.Err() == nil && DiesNow(m)) {
		return nil, fmt.Errorf("greet the guest: %w", vmm.ErrGone)
	}
	return l, err
}

// hungUp tells whether the other end of a connection ended it.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// DiesNow waits a moment for the news that the machine is gone: a dying process closes its sockets, and lets go of its memory, before.
func DiesNow(m vmm.Machine) bool {
	t := time.NewTimer(deathNotice)
	defer t.Stop()
	select {
	case <-m.Done():
		return true
	case <-t.C:
		return false
	}
}

const deathNotice = time.Second

// WhileRunning returns a context that ends when the machine is gone. The caller calls cancel.
func WhileRunning(ctx context.Context, m vmm.Machine) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-m.Done():
			end()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		end()
		watch.Wait()
	}
}

// Gone reports whether the machine's process is gone.
func Gone(m vmm.Machine) bool {
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}
