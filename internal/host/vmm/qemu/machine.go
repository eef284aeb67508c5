package qemu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/qemu/qmp"
)

// machine implements vmm.Machine.
type machine struct {
	spec    spec
	process *monitor.Process
	said    *monitor.Said // nil if another life of the daemon started the machine
	turn    chan struct{} // held by the one operation that uses the monitor

	released chan struct{}  // closed by Close
	reporter sync.WaitGroup // report's goroutine

	mu     sync.Mutex
	qmp    *qmp.Client // nil if there's no conversation
	guest  net.Conn    // the last DialGuest's
	closed bool
	killed bool // by us
}

func newMachine(p *monitor.Process, said *monitor.Said, s spec) *machine {
	return &machine{spec: s, process: p, said: said, turn: make(chan struct{}, 1), released: make(chan struct{})}
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
	said := ""
	if m.said != nil {
		said = m.said.Drain()
	}
	slog.Warn("QEMU ended by itself", "machine", m.spec.ID, "said", said)
}

// Recover re-attaches to a machine.
func (d *Driver) Recover(ctx context.Context, e vmm.Enclosure, h vmm.Handle) (vmm.Machine, error) {
	s, err := parseSpec(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	p, err := monitor.Find(h)
	if err != nil {
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	m := newMachine(p, nil, s)
	if err := m.connect(ctx); err != nil {
		err = m.explain(err)
		m.Close()
		return nil, fmt.Errorf("recover machine %s: %w", e.ID, err)
	}
	return m.started(), nil
}

// Handle finds the machine again.
func (m *machine) Handle() vmm.Handle {
	details, err := m.spec.details()
	if err != nil { // strings and numbers always have a JSON form
		panic(err)
	}
	return m.process.Handle(Name, details)
}

// DialGuest connects to the socket behind the guest's port, which takes one client at a time.
func (m *machine) DialGuest(ctx context.Context) (net.Conn, error) {
	m.hangUp()
	c, err := m.process.Dial(ctx, m.spec.Link)
	if err != nil {
		return nil, fmt.Errorf("dial the guest of %s: %w", m.spec.ID, m.explain(err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.Close()
		return nil, fmt.Errorf("dial the guest of %s: %w", m.spec.ID, net.ErrClosed)
	}
	if m.guest != nil { // of a call that ran at the same time
		m.guest.Close()
	}
	m.guest = c
	return c, nil
}

func (m *machine) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guest != nil {
		m.guest.Close()
		m.guest = nil
	}
}

// Pause stops the guest's processors.
func (m *machine) Pause(ctx context.Context) error { return m.command(ctx, "stop") }

// Resume lets them go on.
func (m *machine) Resume(ctx context.Context) error { return m.command(ctx, "cont") }

// command runs one that QEMU takes in any state.
func (m *machine) command(ctx context.Context, name string) error {
	err := m.exclusively(ctx, func(q *qmp.Client) error { return q.Run(ctx, name, nil, nil) })
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.spec.ID, m.explain(err))
	}
	return nil
}

// exclusively calls f with the monitor when no other operation uses it.
func (m *machine) exclusively(ctx context.Context, f func(*qmp.Client) error) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-m.process.Done():
		return vmm.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	q, err := m.monitor(ctx)
	if err != nil {
		return err
	}
	return f(q)
}

// connect opens the conversation with the monitor.
func (m *machine) connect(ctx context.Context) error {
	return m.exclusively(ctx, func(*qmp.Client) error { return nil })
}

// monitor returns the conversation with QEMU, a new one if the last has broken. The caller holds the turn.
func (m *machine) monitor(ctx context.Context) (*qmp.Client, error) {
	m.mu.Lock()
	q, closed := m.qmp, m.closed
	m.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	if q != nil && q.Err() == nil {
		return q, nil
	}
	c, err := m.process.Dial(ctx, m.spec.Monitor)
	if err != nil {
		return nil, err
	}
	if q, err = qmp.Open(ctx, c, m.noteEvent); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		q.Close()
		return nil, net.ErrClosed
	}
	m.qmp = q
	return q, nil
}

// noteEvent logs why a machine is about to end by itself: the guest's power-off, reset or panic.
func (m *machine) noteEvent(e qmp.Event) {
	if e.Name == "SHUTDOWN" {
		slog.Info("QEMU shuts down", "machine", m.spec.ID, "why", string(e.Data))
	}
}

// awaitIncoming waits until the device state is read and sets the machine going.
func (m *machine) awaitIncoming(ctx context.Context) error {
	return m.exclusively(ctx, func(q *qmp.Client) error {
		for {
			s, err := status(ctx, q)
			if err != nil {
				return err
			}
			if s != "inmigrate" {
				return q.Run(ctx, "cont", nil, nil)
			}
			if err := sleep(ctx, incomingInterval); err != nil {
				return err
			}
		}
	})
}

// status asks for the run state.
func status(ctx context.Context, q *qmp.Client) (string, error) {
	var s struct {
		Status string `json:"status"`
	}
	err := q.Run(ctx, "query-status", nil, &s)
	return s.Status, err
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
		return errors.Join(fmt.Errorf("QEMU ended: %s", said), kerr)
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

// Done is closed when QEMU is gone.
func (m *machine) Done() <-chan struct{} { return m.process.Done() }

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
	m.hangUp()
	if q != nil {
		q.Close()
	}
	if m.said != nil {
		m.said.Close()
	}
	return m.process.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
