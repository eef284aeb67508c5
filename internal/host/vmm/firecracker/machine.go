package firecracker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/pager"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// machine implements vmm.Machine.
type machine struct {
	spec    spec
	process *monitor.Process
	said    *monitor.Said // nil if another life of the daemon started the machine
	pager   *pager.Pager  // nil for a machine whose memory is mapped, or that was booted
	starter vmm.Starter
	api     *api.Client
	port    *monitor.Port
	turn    chan struct{} // held by the one operation that changes the machine
	held    *pages.Buffer // for what is saved
	paused  bool          // whether it's known to be paused; guarded by turn
	saved   bool          // whether it may have been saved before; guarded by turn
	last    string        // the save since which Firecracker keeps account of what changes; "": none that has a name; guarded by turn
	reset   bool          // whether a reset of the vsock device is announced; guarded by turn

	forgetful bool // see forgetsVsock

	released chan struct{}  // closed by Close
	reporter sync.WaitGroup // report's goroutine

	mu     sync.Mutex
	closed bool
	killed bool  // by us
	fate   error // why it was ended, if not by Kill
}

// newMachine is a machine whose Firecracker has a version.
func (d *Driver) newMachine(p *monitor.Process, said *monitor.Said, starter vmm.Starter, s spec, v version) *machine {
	m := &machine{held: d.held, spec: s, process: p, said: said, starter: starter, turn: make(chan struct{}, 1), forgetful: v.release == forgetsVsock, released: make(chan struct{})}
	m.api = api.New(func(ctx context.Context) (net.Conn, error) { return p.DialWithin(ctx, apiSocket) }, d.config.Trace)
	dial := dialPort
	if !v.atLeast(awaitsReset) {
		dial = dialPortTwice
	}
	m.port = monitor.NewPort(func(ctx context.Context) (net.Conn, error) { return dial(ctx, p) })
	return m
}

// started returns a machine that is up, and begins to watch for its end.
func (m *machine) started() *machine {
	m.reporter.Go(m.report)
	return m
}

// report logs what Firecracker said last if it ended by itself.
func (m *machine) report() {
	select {
	case <-m.process.Done():
	case <-m.released:
		return
	}
	m.mu.Lock()
	known := m.killed || m.fate != nil
	m.mu.Unlock()
	if known {
		return
	}
	slog.Warn("Firecracker ended by itself", "machine", m.spec.ID, "said", m.LastWords())
}

// Handle finds the machine again.
func (m *machine) Handle() vmm.Handle { return m.process.Handle(Name, m.spec.details()) }

// DialGuest connects to the agent's port, which takes until the guest has booted.
func (m *machine) DialGuest(ctx context.Context) (net.Conn, error) {
	c, err := m.port.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the guest of %s: %w", m.spec.ID, m.explain(err))
	}
	return c, nil
}

// Pause stops the guest's processors.
func (m *machine) Pause(ctx context.Context) error { return m.operate(ctx, "pause", m.pause) }

func (m *machine) pause(ctx context.Context) error {
	err := m.api.Pause(ctx)
	m.paused = err == nil
	return err
}

// Resume lets them go on.
func (m *machine) Resume(ctx context.Context) error { return m.operate(ctx, "resume", m.resume) }

// resume leaves a machine alone that runs: Firecracker would tell its devices that it had been paused.
func (m *machine) resume(ctx context.Context) error {
	m.paused = false
	i, err := m.api.Instance(ctx)
	if err != nil || i.State == api.Running {
		return err
	}
	if m.forgetful && !m.reset {
		if err := m.announceReset(ctx); err != nil {
			return err
		}
	}
	m.reset = false
	return m.api.Resume(ctx)
}

// nowhere is in a directory that isn't there.
const nowhere = "/vm/nowhere/state"

// announceReset has Firecracker announce a reset of the vsock device to the guest, which it does at the beginning of each save (see
// forgetsVsock). The save itself must fail: it would take time, and change what the next one writes.
func (m *machine) announceReset(ctx context.Context) error {
	var refused *api.Fault
	err := m.api.Save(ctx, api.Save{Type: api.Diff, State: nowhere, Memory: nowhere})
	if errors.As(err, &refused) {
		return nil
	}
	return errors.Join(errors.New("a save into nowhere didn't fail as it should"), err)
}

// operate calls f when no other operation does.
func (m *machine) operate(ctx context.Context, what string, f func(context.Context) error) error {
	if err := m.exclusively(ctx, f); err != nil {
		return fmt.Errorf("%s machine %s: %w", what, m.spec.ID, m.explain(err))
	}
	return nil
}

func (m *machine) exclusively(ctx context.Context, f func(context.Context) error) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-m.process.Done():
		return vmm.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return f(ctx)
}

// explain makes vmm.ErrGone of the errors that a dead Firecracker causes.
func (m *machine) explain(err error) error {
	err = m.process.Explain(err, errors.Is(err, api.ErrBroken))
	if fate := m.Err(); fate != nil && errors.Is(err, vmm.ErrGone) {
		return fmt.Errorf("%w: %w", err, fate)
	}
	return err
}

// abandon ends a machine that didn't start, and adds to the error what Firecracker said.
func (m *machine) abandon(ctx context.Context, cause error) error {
	gone := errors.Is(m.explain(cause), vmm.ErrGone)
	kerr := m.Kill(context.WithoutCancel(ctx))
	said := m.said.Drain()
	m.Close()
	if fate := m.Err(); fate != nil {
		return errors.Join(fate, kerr)
	}
	if gone {
		return errors.Join(fmt.Errorf("%w: Firecracker ended: %s", vmm.ErrGone, said), kerr)
	}
	return errors.Join(cause, kerr)
}

// Kill ends Firecracker, and the pager after it, which then has nobody to wait for it.
func (m *machine) Kill(ctx context.Context) error {
	m.mu.Lock()
	m.killed = true
	m.mu.Unlock()
	if err := m.process.Kill(ctx); err != nil {
		return fmt.Errorf("kill machine %s: %w", m.spec.ID, err)
	}
	if m.pager == nil {
		return nil
	}
	if err := m.pager.Kill(ctx); err != nil {
		return fmt.Errorf("kill machine %s: %w", m.spec.ID, err)
	}
	return nil
}

// LastWords says what was printed, and how it ended.
func (m *machine) LastWords() string { return m.process.LastWords(m.said) }

// Done is closed when Firecracker is gone.
func (m *machine) Done() <-chan struct{} { return m.process.Done() }

// Close lets go of the machine.
func (m *machine) Close() error {
	m.mu.Lock()
	closed := m.closed
	m.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	close(m.released)
	m.reporter.Wait()
	m.port.Close()
	m.api.Close()
	if m.said != nil {
		m.said.Close()
	}
	if m.pager != nil {
		m.pager.Close()
	}
	return m.process.Close()
}
