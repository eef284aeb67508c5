package firecracker_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
)

// versionDriver is a twin's driver of a version.
func versionDriver(t *testing.T, version string, asked *trace) *firecracker.Driver {
	t.Helper()
	c := install(t, version, version)
	c.Trace = asked.note
	d, err := firecracker.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAMachineGoesOnAsTheVersionThatItIs has machines found again by a driver of another version: whether a reset is announced to the guest before a resume
// depends on what the machine is.
func TestAMachineGoesOnAsTheVersionThatItIs(t *testing.T) {
	for was, announced := range map[string]bool{"1.16.1": true, "1.15.1": false} {
		s := &twins{t: t, orders: twinOrders{Version: was}}
		e := s.enclosure()
		m, err := versionDriver(t, was, &trace{}).Boot(t.Context(), e, bootOf(t))
		if err != nil {
			t.Fatal(err)
		}
		h := m.Handle()
		m.Close()
		now := "1.15.1"
		if was == now {
			now = "1.16.1"
		}
		var asked trace
		m, err = versionDriver(t, now, &asked).Recover(t.Context(), e, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []func(context.Context) error{m.Pause, m.Resume, m.Kill} {
			if err := f(t.Context()); err != nil {
				t.Errorf("%s: %v", was, err)
			}
		}
		m.Close()
		if got := asked.body("PUT /snapshot/create") != ""; got != announced {
			t.Errorf("of %s, found by %s, a reset was announced: %v, want %v", was, now, got, announced)
		}
	}
}

// TestWhatWasLentIsTakenBackFromAMachineThatIsFoundAgain: the daemon may have ended in the middle of a save.
func TestWhatWasLentIsTakenBackFromAMachineThatIsFoundAgain(t *testing.T) {
	s := &twins{t: t}
	e := s.enclosure()
	d := twinDriver(t)
	m, err := d.Boot(t.Context(), e, bootOf(t))
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handle()
	m.Close()
	if m, err = d.Recover(t.Context(), e, h); err != nil {
		t.Fatal(err)
	}
	m.Kill(t.Context())
	m.Close()
	if want := []string{"/vm/saved-state", "/vm/saved-memory"}; !slices.Equal(s.back, want) {
		t.Errorf("taken back: %q, want %q", s.back, want)
	}
}

// TestAProgramThatWasExchangedStartsNothing has another release in the place of the one that the driver has looked at.
func TestAProgramThatWasExchangedStartsNothing(t *testing.T) {
	d := twinDriver(t)
	load := saved(t, d)
	for name, start := range map[string]func(vmm.Enclosure) (vmm.Machine, error){
		"boot": func(e vmm.Enclosure) (vmm.Machine, error) { return d.Boot(t.Context(), e, bootOf(t)) },
		"load": func(e vmm.Enclosure) (vmm.Machine, error) { return d.Load(t.Context(), e, load) },
	} {
		s := &twins{t: t, orders: twinOrders{Version: "1.15.1"}}
		m, err := start(s.enclosure())
		if err == nil {
			m.Kill(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "is version 1.15.1, and was 1.16.1 when this daemon started") {
			t.Errorf("%s: %v", name, err)
		}
		s.mustBeOver()
	}
}
