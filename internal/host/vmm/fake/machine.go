package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// stopInterval is how often the kernel is asked whether a process has stopped, which it does at its next chance.
const stopInterval = time.Millisecond

// errRunning refuses the save of a machine that runs.
var errRunning = errors.New("it isn't paused")

// spec is what the handle keeps of a machine.
type spec struct {
	ID    string    `json:"id"`
	Link  string    `json:"link"`
	Shape vmm.Shape `json:"shape"`
}

const specDetail = "machine"

func parseSpec(h vmm.Handle) (spec, error) {
	var s spec
	if h.Driver != Name {
		return s, fmt.Errorf("a handle of driver %q: want %q", h.Driver, Name)
	}
	if err := json.Unmarshal([]byte(h.Details[specDetail]), &s); err != nil {
		return s, fmt.Errorf("read what the handle says of the machine: %w", err)
	}
	return s, nil
}

// machine implements vmm.Machine.
type machine struct {
	spec    spec
	process *monitor.Process
	said    *monitor.Said // nil if another life of the daemon started the machine
	port    *monitor.Port
	turn    chan struct{} // held by a Pause, Resume or Save
	release sync.Once
}

func newMachine(p *monitor.Process, said *monitor.Said, s spec) *machine {
	return &machine{spec: s, process: p, said: said, port: p.Port(s.Link), turn: make(chan struct{}, 1)}
}

// Handle finds the machine again.
func (m *machine) Handle() vmm.Handle {
	b, err := json.Marshal(m.spec)
	if err != nil { // strings and numbers always have a JSON form
		panic(err)
	}
	return m.process.Handle(Name, map[string]string{specDetail: string(b)})
}

// DialGuest connects to the agent.
func (m *machine) DialGuest(ctx context.Context) (net.Conn, error) {
	c, err := m.port.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the guest of %s: %w", m.spec.ID, err)
	}
	return c, nil
}

// Pause stops the agent.
func (m *machine) Pause(ctx context.Context) error {
	err := m.exclusively(ctx, func() error {
		if err := m.process.Signal(unix.SIGSTOP); err != nil {
			return err
		}
		return m.awaitStopped(ctx)
	})
	if err != nil {
		return fmt.Errorf("pause machine %s: %w", m.spec.ID, err)
	}
	return nil
}

// Resume lets it go on.
func (m *machine) Resume(ctx context.Context) error {
	err := m.exclusively(ctx, func() error { return m.process.Signal(unix.SIGCONT) })
	if err != nil {
		return fmt.Errorf("resume machine %s: %w", m.spec.ID, err)
	}
	return nil
}

// exclusively calls f when no other call does.
func (m *machine) exclusively(ctx context.Context, f func() error) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *machine) awaitStopped(ctx context.Context) error {
	for {
		stopped, err := m.stopped()
		if stopped || err != nil {
			return err
		}
		t := time.NewTimer(stopInterval)
		select {
		case <-t.C:
		case <-m.process.Done():
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// stopped tells whether the process is stopped by a signal.
func (m *machine) stopped() (bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.process.PID()))
	if err != nil || m.process.Gone() {
		return false, vmm.ErrGone
	}
	_, after, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	return strings.HasPrefix(after, "T"), nil
}

// Save writes a state file that says nothing.
func (m *machine) Save(ctx context.Context, to vmm.Save) (vmm.Manifest, vmm.Finish, error) {
	err := m.exclusively(ctx, func() error {
		stopped, err := m.stopped()
		if err != nil {
			return err
		}
		if !stopped {
			return errRunning
		}
		return writeState(to.State)
	})
	if err != nil {
		return vmm.Manifest{}, nil, fmt.Errorf("save machine %s: %w", m.spec.ID, err)
	}
	return manifest(m.spec.Shape), vmm.Finished, nil
}

// abandon ends a machine that didn't start, and adds to the error what the agent said.
func (m *machine) abandon(ctx context.Context, cause error) error {
	gone := m.process.Gone()
	kerr := m.Kill(context.WithoutCancel(ctx))
	said := m.said.Drain()
	m.Close()
	if gone {
		return errors.Join(fmt.Errorf("%w: the agent ended: %s", vmm.ErrGone, said), kerr)
	}
	return errors.Join(fmt.Errorf("wait for the agent: %w", cause), kerr)
}

// Kill ends the process; what it started ends with it.
func (m *machine) Kill(ctx context.Context) error {
	if err := m.process.Kill(ctx); err != nil {
		return fmt.Errorf("kill machine %s: %w", m.spec.ID, err)
	}
	return nil
}

// LastWords says what was printed, and how it ended.
func (m *machine) LastWords() string { return m.process.LastWords(m.said) }

// Done is closed when the process is gone.
func (m *machine) Done() <-chan struct{} { return m.process.Done() }

// Err is nil: nothing makes this driver end a machine.
func (m *machine) Err() error { return nil }

// Close lets go of the machine.
func (m *machine) Close() (err error) {
	m.release.Do(func() {
		m.port.Close()
		if m.said != nil {
			m.said.Close()
		}
		err = m.process.Close()
	})
	return err
}
