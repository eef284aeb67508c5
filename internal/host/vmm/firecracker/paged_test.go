package firecracker_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/pager"
	"github.com/space-platform/space/internal/proc"
)

// paged loads a twin whose memory comes from a pager, which the twin never asks for any.
func paged(t *testing.T) (vmm.Driver, *twins, vmm.Enclosure, vmm.Machine) {
	t.Helper()
	d := twinDriver(t)
	if !d.Capabilities().PagedMemory {
		t.Fatal(pager.Available())
	}
	l := saved(t, d)
	l.Pages = &vmm.Pages{WorkingSet: filepath.Join(t.TempDir(), "set"), Snapshot: "a"}
	s := &twins{t: t}
	e := s.enclosure()
	m, err := d.Load(t.Context(), e, l)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.started) != 2 {
		t.Fatalf("%d processes were started, want Firecracker and a pager", len(s.started))
	}
	t.Cleanup(func() { m.Kill(context.Background()); m.Close() })
	return d, s, e, m
}

// loseIts ends the process of a machine that isn't Firecracker.
func loseIts(t *testing.T, h vmm.Handle) {
	t.Helper()
	var spec struct{ Pager vmm.Handle }
	if err := json.Unmarshal([]byte(h.Details["machine"]), &spec); err != nil {
		t.Fatal(err)
	}
	p := spec.Pager
	if err := proc.End(t.Context(), proc.ID{PID: p.PID, StartTime: p.StartTime, BootID: p.BootID}, vmm.KillGrace); err != nil {
		t.Fatal(err)
	}
}

func TestAMachineThatLosesItsPagerIsEndedForThatReason(t *testing.T) {
	_, s, _, m := paged(t)
	if err := m.Err(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	loseIts(t, m.Handle())
	select {
	case <-m.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if err := m.Err(); !errors.Is(err, vmm.ErrPages) {
		t.Errorf("it ended for %v, want ErrPages", err)
	}
	if err := m.Pause(t.Context()); !errors.Is(err, vmm.ErrGone) || !errors.Is(err, vmm.ErrPages) {
		t.Errorf("a call says %v, want ErrGone and ErrPages", err)
	}
	s.mustBeOver()
}

func TestAMachineIsFoundAgainWithItsPagerAndNotWithout(t *testing.T) {
	d, s, e, m := paged(t)
	h := m.Handle()
	m.Close()
	again, err := d.Recover(t.Context(), e, h)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	loseIts(t, h)
	if m, err := d.Recover(t.Context(), e, h); !errors.Is(err, vmm.ErrGone) || !errors.Is(err, vmm.ErrPages) {
		t.Errorf("found without its pager: %v, %v, want ErrGone and ErrPages", m, err)
	}
	s.mustBeOver()
}

func TestAPagerIsFoundAgainAndWatched(t *testing.T) {
	d, s, e, m := paged(t)
	h := m.Handle()
	m.Close()
	m, err := d.Recover(t.Context(), e, h)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	loseIts(t, h)
	<-m.Done()
	if err := m.Err(); !errors.Is(err, vmm.ErrPages) {
		t.Errorf("it ended for %v, want ErrPages", err)
	}
	s.mustBeOver()
}

func TestAPagerEndsWithItsMachine(t *testing.T) {
	_, s, _, m := paged(t)
	if err := m.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err != nil {
		t.Errorf("a machine that was killed ended for %v", err)
	}
	s.mustBeOver()
}

// A load that fails at any call leaves no pager either.
func TestALoadThatFailsLeavesNoPager(t *testing.T) {
	d := twinDriver(t)
	l := saved(t, d)
	l.Pages = &vmm.Pages{Snapshot: "a"}
	for _, call := range []string{"start", "GET /", "PUT /snapshot/load", "PATCH /vm"} {
		s := &twins{t: t, orders: twinOrders{At: call, Fault: "exit"}}
		if m, err := d.Load(t.Context(), s.enclosure(), l); err == nil {
			m.Kill(t.Context())
			t.Errorf("a failure at %s is none", call)
		}
		if len(s.started) != 2 {
			t.Errorf("at %s %d processes were started, want 2", call, len(s.started))
		}
		s.mustBeOver()
	}
	l.Memory += ".missing"
	s := &twins{t: t}
	if _, err := d.Load(t.Context(), s.enclosure(), l); err == nil {
		t.Error("a memory that isn't there is fine")
	}
	s.mustBeOver()
}
