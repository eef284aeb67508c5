package vmmtest

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/peer"
)

func checkPeer(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	conn, ok := g.conn.(syscall.Conn)
	if !ok {
		t.Fatalf("the connection is a %T, whose peer can't be asked for", g.conn)
	}
	cred, err := peer.Credentials(conn)
	if err != nil {
		t.Fatal(err)
	}
	if h := g.Handle(); int(cred.Pid) != h.PID || int(cred.Uid) != h.UID {
		t.Errorf("the peer is pid %d, uid %d; the machine is %d, %d", cred.Pid, cred.Uid, h.PID, h.UID)
	}
}

// reopened is a handle after the daemon wrote it down and read it again.
func reopened(t *testing.T, h vmm.Handle) vmm.Handle {
	t.Helper()
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var out vmm.Handle
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// recover lets go of a machine and finds it again.
func (g *guest) recover() *guest {
	g.t.Helper()
	h := reopened(g.t, g.Handle())
	if err := g.Close(); err != nil {
		g.t.Fatal(err)
	}
	g.released = true
	m, err := g.s.Driver.Recover(g.s.within(g.t), g.e, h)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.s.guest(g.t, m, g.e, g.dir, g.disk, g.mem)
}

func checkRecover(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	r := g.recover()
	r.greet(false)
	if out := r.sh("echo found"); out != "found" {
		t.Errorf("the recovered guest said %q", out)
	}
	if r.Handle().PID != g.Handle().PID {
		t.Errorf("recovered process %d, want %d", r.Handle().PID, g.Handle().PID)
	}
	c := s.load(t, r.save(s.place(t)))
	if out := c.sh("echo clone"); out != "clone" {
		t.Errorf("a clone of the recovered machine said %q", out)
	}
	if err := r.Kill(s.within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Driver.Recover(s.within(t), g.e, reopened(t, r.Handle())); !errors.Is(err, vmm.ErrGone) {
		t.Errorf("a dead machine is recovered: %v, want ErrGone", err)
	}
}

func checkRecoverPaused(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	g.pause()
	r := g.recover()
	if err := r.Resume(s.within(t)); err != nil {
		t.Fatal(err)
	}
	r.greet(false)
	if out := r.sh("echo found"); out != "found" {
		t.Errorf("the recovered guest said %q", out)
	}
}

func checkRecoverOther(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	for name, change := range map[string]func(*vmm.Handle){
		"start time":      func(h *vmm.Handle) { h.StartTime++ },
		"boot":            func(h *vmm.Handle) { h.BootID = "another" },
		"uid":             func(h *vmm.Handle) { h.UID++ },
		"another process": func(h *vmm.Handle) { h.PID = os.Getpid() },
		"no process":      func(h *vmm.Handle) { h.PID = 1 << 22 },
	} {
		h := reopened(t, g.Handle())
		change(&h)
		if m, err := s.Driver.Recover(s.within(t), g.e, h); !errors.Is(err, vmm.ErrGone) {
			t.Errorf("%s: recovered %v, %v, want ErrGone", name, m, err)
		}
	}
	if out := g.sh("echo unharmed"); out != "unharmed" {
		t.Errorf("the guest said %q", out)
	}
}
