package machine_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

// TestGreetDialsAgain: a guest that was just loaded ends the first connections before it answers one. Who always hangs up isn't dialled for ever.
func TestGreetDialsAgain(t *testing.T) {
	sync := link.Sync{Execution: "exe_a", Epoch: 1, Adopt: true}
	m := &flighty{t: t, hangUps: 2, done: make(chan struct{})}
	l, err := machine.Greet(t.Context(), m, sync)
	if err != nil || m.dials != 3 {
		t.Fatalf("%v after %d dials, want a link after 3", err, m.dials)
	}
	l.Close()
	m = &flighty{t: t, hangUps: 100, done: make(chan struct{})}
	if l, err := machine.Greet(t.Context(), m, sync); err == nil || m.dials > 10 {
		t.Errorf("a guest that always hangs up: %v, %v after %d dials", l, err, m.dials)
	}
	m = &flighty{t: t, hangUps: 100, done: make(chan struct{})}
	close(m.done)
	if l, err := machine.Greet(t.Context(), m, sync); !errors.Is(err, vmm.ErrGone) || m.dials > 1 {
		t.Errorf("a machine that is gone: %v, %v after %d dials, want ErrGone", l, err, m.dials)
	}
}

// flighty is a machine whose guest hangs up on the first who dial it.
type flighty struct {
	vmm.Machine
	t       *testing.T
	hangUps int
	dials   int
	done    chan struct{}
}

func (m *flighty) Done() <-chan struct{} { return m.done }

func (m *flighty) DialGuest(context.Context) (net.Conn, error) {
	m.dials++
	host, guest := pair(m.t)
	if m.dials <= m.hangUps {
		guest.Close()
		return host, nil
	}
	g := link.NewGuest(guest, link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }})
	var all sync.WaitGroup
	all.Go(func() { g.Run() })
	m.t.Cleanup(func() { guest.Close(); all.Wait() })
	return host, nil
}

// pair are the two ends of a connection.
func pair(t *testing.T) (host, guest net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return ends[0], ends[1]
}
