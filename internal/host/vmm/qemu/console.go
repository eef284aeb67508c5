package qemu

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/qemu/qmp"
)

// incomingInterval is how often QEMU is asked whether it has read the device state, which takes it some milliseconds.
const incomingInterval = time.Millisecond

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
