package qemu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/host/vmm/qemu/qmp"
)

// machine implements vmm.Machine.
type machine struct {
	spec    spec
	process *monitor.Process
	said    *monitor.Said // nil if another life of the daemon started the machine
	memory  *os.File      // that of a booted machine which is in no file system, as long as it's open here; it outlives QEMU
	port    *monitor.Port
	turn    chan struct{} // held by the one operation that uses the monitor
	lent    bool          // QEMU may have files open into which states were saved; guarded by turn
	held    *pages.Buffer // for what is saved

	released chan struct{}  // closed by Close
	reporter sync.WaitGroup // report's goroutine

	still atomic.Bool // stopped by us

	mu     sync.Mutex
	qmp    *qmp.Client // nil if there's no conversation
	conn   *connection // the last to the guest
	closed bool
	killed bool // by us
}

func (d *Driver) newMachine(p *monitor.Process, said *monitor.Said, s spec) *machine {
	return &machine{held: d.held, spec: s, process: p, said: said, port: p.Port(s.Link), turn: make(chan struct{}, 1), released: make(chan struct{})}
}

// started returns a machine that is up, and begins to watch for its end.
func (m *machine) started() *machine {
	m.reporter.Go(m.report)
	return m
}

// report logs what QEMU said last if it ended by itself.
func (m *machine) report() {
	select {
	case <-m.process.Done():
	case <-m.released:
		return
	}
	m.mu.Lock()
	killed := m.killed
	m.mu.Unlock()
	if killed {
		return
	}
	slog.Warn("QEMU ended by itself", "machine", m.spec.ID, "said", m.LastWords())
}

// Handle finds the machine again.
func (m *machine) Handle() vmm.Handle {
	details, err := m.spec.details()
	if err != nil { // strings and numbers always have a JSON form
		panic(err)
	}
	return m.process.Handle(Name, details)
}

// DialGuest connects to the socket behind the guest's port.
func (m *machine) DialGuest(ctx context.Context) (net.Conn, error) {
	c, err := m.port.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the guest of %s: %w", m.spec.ID, m.explain(err))
	}
	out := newConnection(c.(*net.UnixConn), m.still.Load) // Process.Dial makes no other
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn = out
	return out, nil
}

// lastConnection is nil if the guest wasn't dialled.
func (m *machine) lastConnection() *connection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn
}

// Pause stops the guest's processors.
func (m *machine) Pause(ctx context.Context) error {
	m.lastConnection().settle(ctx)
	err := m.command(ctx, "stop")
	if err == nil {
		m.still.Store(true)
	}
	return err
}

// Resume lets them go on.
func (m *machine) Resume(ctx context.Context) error {
	m.still.Store(false)
	err := m.exclusively(ctx, func(q *qmp.Client) error {
		if err := q.Run(ctx, "cont", nil, nil); err != nil {
			return err
		}
		m.closeLent(ctx, q)
		return nil
	})
	return m.failed(err)
}

// command runs one that QEMU takes in any state.
func (m *machine) command(ctx context.Context, name string) error {
	return m.failed(m.exclusively(ctx, func(q *qmp.Client) error { return q.Run(ctx, name, nil, nil) }))
}

func (m *machine) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("machine %s: %w", m.spec.ID, m.explain(err))
}

// explain makes vmm.ErrGone of the errors that a dead QEMU causes.
func (m *machine) explain(err error) error {
	return m.process.Explain(err, errors.Is(err, qmp.ErrClosed))
}

// abandon ends a machine that didn't start, and adds to the error what QEMU said.
func (m *machine) abandon(ctx context.Context, cause error) error {
	gone := errors.Is(m.explain(cause), vmm.ErrGone)
	kerr := m.Kill(context.WithoutCancel(ctx))
	said := m.said.Drain()
	m.Close()
	if gone {
		return errors.Join(fmt.Errorf("%w: QEMU ended: %s", vmm.ErrGone, said), kerr)
	}
	return errors.Join(fmt.Errorf("wait for QEMU: %w", cause), kerr)
}

// Kill ends QEMU.
func (m *machine) Kill(ctx context.Context) error {
	m.mu.Lock()
	m.killed = true
	m.mu.Unlock()
	if err := m.process.Kill(ctx); err != nil {
		return fmt.Errorf("kill machine %s: %w", m.spec.ID, err)
	}
	return nil
}

// LastWords has what the guest's kernel logged if the machine was booted: then its memory is in a file.
func (m *machine) LastWords() string {
	words := m.process.LastWords(m.said)
	if m.spec.Private {
		return words
	}
	memory := m.memory
	if memory == nil {
		f, err := m.spec.Memory.open(m.process.PID())
		if err != nil {
			return words
		}
		defer f.Close()
		memory = f
	}
	if said := kernelLog(memory, m.spec.Memory.Bytes); said != "" {
		words += "; the guest's kernel said last: " + said
	}
	return strings.TrimPrefix(words, "; ")
}

// Done is closed when QEMU is gone.
func (m *machine) Done() <-chan struct{} { return m.process.Done() }

// Err is nil: nothing makes this driver end a machine.
func (m *machine) Err() error { return nil }

// Close lets go of the machine.
func (m *machine) Close() error {
	m.mu.Lock()
	q, closed := m.qmp, m.closed
	m.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	close(m.released)
	m.reporter.Wait()
	m.port.Close()
	m.lastConnection().settle(context.Background()) // which is at once
	if q != nil {
		q.Close()
	}
	if m.said != nil {
		m.said.Close()
	}
	if m.memory != nil {
		m.memory.Close()
	}
	return m.process.Close()
}
