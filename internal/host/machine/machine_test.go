package machine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

// TestGreetDialsAgain: a guest that was just loaded ends the first connections before it answers one, and a VMM may take a connection and pass nothing on. Who always
// hangs up, or never answers, isn't dialled for ever.
func TestGreetDialsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		hangUps, silent, most int
		gone                  bool
		answers               bool
	}{
		"hangs up twice":      {hangUps: 2, most: 3, answers: true},
		"always hangs up":     {hangUps: 100, most: 10},
		"is gone with that":   {hangUps: 100, most: 1, gone: true},
		"is silent once":      {silent: 1, most: 2, answers: true},
		"is silent, hangs up": {silent: 1, hangUps: 2, most: 3, answers: true},
		"is always silent":    {silent: 100, most: greetsAtMost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &flighty{t: t, hangUps: c.hangUps, silent: c.silent, done: make(chan struct{})}
				if c.gone {
					close(m.done)
				}
				l, err := machine.Greet(t.Context(), m, link.Sync{Execution: "exe_a", Epoch: 1, Adopt: true})
				if (err == nil) != c.answers || errors.Is(err, vmm.ErrGone) != c.gone || m.dials > c.most {
					t.Errorf("%v after %d dials", err, m.dials)
				}
				if err == nil {
					l.Close()
				}
			})
		})
	}
}

// greetsAtMost is how often a guest is dialled that never answers.
const greetsAtMost = 4

// flighty is a machine whose guest says nothing to the first who dial it, and hangs up on the next ones.
type flighty struct {
	vmm.Machine
	t       *testing.T
	silent  int
	hangUps int
	dials   int
	done    chan struct{}
}

func (m *flighty) Done() <-chan struct{} { return m.done }

func (m *flighty) DialGuest(context.Context) (net.Conn, error) {
	m.dials++
	host, guest := net.Pipe()
	if m.dials <= m.silent {
		var all sync.WaitGroup
		all.Go(func() { io.Copy(io.Discard, guest) })
		m.t.Cleanup(func() { guest.Close(); all.Wait() })
		return host, nil
	}
	if m.dials <= m.hangUps {
		return hungUp{host}, nil
	}
	g := link.NewGuest(guest, link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }})
	var all sync.WaitGroup
	all.Go(func() { g.Run() })
	m.t.Cleanup(func() { guest.Close(); all.Wait() })
	return host, nil
}

// hungUp is a connection whose other end has hung up.
type hungUp struct{ net.Conn }

func (hungUp) Read([]byte) (int, error)  { return 0, io.EOF }
func (hungUp) Write([]byte) (int, error) { return 0, syscall.EPIPE }
