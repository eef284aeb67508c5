package vmmtest

import (
	"context"
	"sync"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// recorder is a Starter that remembers what it started.
type recorder struct {
	vmm.Starter

	mu      sync.Mutex
	started []proc.ID
}

func (r *recorder) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	p, err := r.Starter.Start(ctx, c)
	if err != nil {
		return p, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return p, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, proc.ID{PID: p.PID, StartTime: p.StartTime, BootID: boot})
	return p, nil
}

// mustBeOver fails the test if anything that was started still runs.
func (r *recorder) mustBeOver(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.started {
		if id.Alive() {
			t.Errorf("process %d still runs", id.PID)
		}
	}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.started)
}
