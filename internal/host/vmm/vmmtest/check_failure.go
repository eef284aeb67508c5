package vmmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

func checkDone(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	h := g.Handle()
	pidfd, err := proc.Open(proc.ID{PID: h.PID, StartTime: h.StartTime, BootID: h.BootID})
	if err != nil {
		t.Fatal(err)
	}
	defer pidfd.Close()
	if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := proc.Wait(s.within(t), pidfd); err != nil { // until the kernel has taken a guest's memory away
		t.Fatal(err)
	}
	select {
	case <-g.Done():
	case <-time.After(time.Second):
		t.Fatal("Done isn't closed a second after the process has ended")
	}
}

func checkGone(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	s.end(t, g)
	<-g.Done() // a killed process lives for a moment
	state := create(t, filepath.Join(s.place(t), "state"))
	defer state.Close()
	for name, call := range map[string]func() error{
		"pause":  func() error { return g.Pause(s.within(t)) },
		"resume": func() error { return g.Resume(s.within(t)) },
		"save":   func() error { _, err := Save(s.within(t), g, state, nil); return err },
		"dial":   func() error { _, err := g.DialGuest(s.within(t)); return err },
	} {
		if err := call(); !errors.Is(err, vmm.ErrGone) {
			t.Errorf("%s of a dead machine: %v, want ErrGone", name, err)
		}
	}
	if err := g.Kill(s.within(t)); err != nil {
		t.Errorf("kill of a dead machine: %v", err)
	}
}

// end ends a machine behind its driver's back, if it has a process.
func (s *suite) end(t *testing.T, g *guest) {
	t.Helper()
	kill := func() error { return unix.Kill(g.Handle().PID, unix.SIGKILL) }
	if s.Inside {
		kill = func() error { return g.Kill(s.within(t)) }
	}
	if err := kill(); err != nil {
		t.Fatal(err)
	}
}

// checkGuestStops ends guests from inside, in good order and not.
func checkGuestStops(t *testing.T, s *suite) {
	const panics = "echo c >/proc/sysrq-trigger; echo 2 >/proc/sys/vm/panic_on_oom; tail /dev/zero" // a tuned kernel has no such key, but may run out of memory
	ends := map[string]string{"reboot": "reboot -f", "panic": panics}
	if s.Driver.Capabilities().PowerOff {
		ends["power off"] = "poweroff -f"
	}
	for name, command := range ends {
		g := s.load(t, s.base)
		ctx := s.within(t)
		if out, exit, err := g.session(ctx, "sh", "-c", command); err == nil {
			t.Errorf("%s: the command printed %q and ended with %v", name, out, exit)
		}
		select {
		case <-g.Done():
		case <-ctx.Done():
			t.Errorf("%s: the machine is still there", name)
		}
	}
}

// checkStopped stops the process itself: the worst that a VMM can do without ending.
func checkStopped(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	if err := unix.Kill(g.Handle().PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const deadline, late = 300 * time.Millisecond, 2 * time.Second
	state := create(t, filepath.Join(s.place(t), "state"))
	defer state.Close()
	for name, call := range map[string]func(context.Context) error{
		"pause":   func(ctx context.Context) error { return g.Pause(ctx) },
		"resume":  func(ctx context.Context) error { return g.Resume(ctx) },
		"save":    func(ctx context.Context) error { _, err := Save(ctx, g, state, nil); return err },
		"dial":    func(ctx context.Context) error { _, err := g.DialGuest(ctx); return err },
		"recover": func(ctx context.Context) error { return recoverAndClose(ctx, s.Driver, g) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); took > deadline+late {
			t.Errorf("%s took %s with a deadline of %s: %v", name, took, deadline, err)
		}
	}
	if err := unix.Kill(g.Handle().PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := g.Resume(s.within(t)); err != nil {
		t.Fatalf("resume after all: %v", err)
	}
	g.greet(false)
	if out := g.sh("echo alive"); out != "alive" {
		t.Errorf("the guest said %q", out)
	}
}

func recoverAndClose(ctx context.Context, d vmm.Driver, g *guest) error {
	m, err := d.Recover(ctx, g.e, g.Handle())
	if err != nil {
		return err
	}
	return m.Close()
}

func checkIncompatible(t *testing.T, s *suite) {
	e, r := s.enclosure(t)
	good := s.loadSpec(t, s.base, s.place(t), e.UID)
	for name, change := range map[string]func(*vmm.Manifest){
		"driver":  func(m *vmm.Manifest) { m.Driver += "x" },
		"version": func(m *vmm.Manifest) { m.Version += "1" },
		"machine": func(m *vmm.Manifest) { m.Machine += ",x=on" },
		"cpu":     func(m *vmm.Manifest) { m.CPU += "x" },
		"devices": func(m *vmm.Manifest) { m.Devices = append(m.Devices[:len(m.Devices):len(m.Devices)], "virtio-gpu") },
		"vcpus":   func(m *vmm.Manifest) { m.VCPUs++ },
		"memory":  func(m *vmm.Manifest) { m.MemoryBytes *= 2 },
		"tsc":     func(m *vmm.Manifest) { m.TSCKHz += m.TSCKHz/100 + 1000 },
		"nothing": func(m *vmm.Manifest) { *m = vmm.Manifest{} },
	} {
		l := good
		change(&l.Manifest)
		m, err := s.Driver.Load(s.within(t), e, l)
		if !errors.Is(err, vmm.ErrIncompatible) {
			t.Errorf("%s: loaded %v, %v, want ErrIncompatible", name, m, err)
		}
		if n := r.count(); n != 0 {
			t.Errorf("%s: %d processes were started", name, n)
		}
	}
}

func checkFailedStart(t *testing.T, s *suite) {
	broken := filepath.Join(s.place(t), "broken")
	if err := os.WriteFile(broken, []byte("this is nothing that runs"), 0o644); err != nil {
		t.Fatal(err)
	}
	boots := map[string]func(*vmm.Boot){
		"no memory file": func(b *vmm.Boot) { b.Memory += ".missing" },
		"short memory":   func(b *vmm.Boot) { b.Memory = broken },
	}
	if s.Kernel != "" {
		boots["no kernel"] = func(b *vmm.Boot) { b.Kernel += ".missing" }
		boots["broken kernel"] = func(b *vmm.Boot) { b.Kernel = broken }
	}
	if s.Disk != "" {
		boots["no disk"] = func(b *vmm.Boot) { b.Disk += ".missing" }
	}
	for name, change := range boots {
		e, r := s.enclosure(t)
		b := s.bootSpec(t, s.place(t), e.UID)
		change(&b)
		ctx := s.within(t)
		m, err := s.Driver.Boot(ctx, e, b)
		if err == nil {
			t.Errorf("boot with %s succeeded", name)
			m.Kill(s.within(t))
		}
		if ctx.Err() != nil {
			t.Errorf("boot with %s ended with its deadline only: %v", name, err)
		}
		r.mustBeOver(t)
	}
	e, r := s.enclosure(t)
	l := s.loadSpec(t, s.base, s.place(t), e.UID)
	l.State = broken
	ctx := s.within(t)
	m, err := s.Driver.Load(ctx, e, l)
	if err == nil {
		t.Error("load of a broken state succeeded")
		m.Kill(s.within(t))
	}
	if ctx.Err() != nil {
		t.Errorf("load of a broken state ended with its deadline only: %v", err)
	}
	r.mustBeOver(t)
}

func checkCancelledStart(t *testing.T, s *suite) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // the process is there by then, its sockets aren't
	defer cancel()
	e, r := s.enclosure(t)
	m, err := s.Driver.Load(ctx, e, s.loadSpec(t, s.base, s.place(t), e.UID))
	if err == nil { // a fast driver
		m.Kill(s.within(t))
	}
	r.mustBeOver(t)
}
