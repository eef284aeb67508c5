package session

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
)

// fakeGuest keeps sessions as a guest does: it starts each id once, and sends what isn't acknowledged. Its processes are scripts of the test.
type fakeGuest struct {
	t     *testing.T
	mu    sync.Mutex
	procs map[string]*process
	// lie, if set, changes what is sent.
	lie func(*guestv1.FromSession)
	// wait, if set, is called before a session is opened; false refuses it.
	wait func() bool
}

// pieceBytes is how much the fake reads at once.
const pieceBytes = 10_000

// process is a running command of the fake.
type process struct {
	mu        sync.Mutex
	starts    int
	log       []byte
	flood     func(offset uint64, b []byte) // makes what is in the log instead; nil: log is the log
	length    uint64                        // of it then
	acked     uint64
	stdin     []byte
	stdinWant uint64
	taken     uint64 // of stdin, by the command
	stdinEnd  bool
	signals   []int32
	size      *sessionv1.Terminal
	exit      *sessionv1.Exit
	forgotten bool
	changed   chan struct{}
}

func newFakeGuest(t *testing.T) *fakeGuest {
	return &fakeGuest{t: t, procs: map[string]*process{}}
}

// connect makes a link to the guest, as a daemon that came back does.
func (g *fakeGuest) connect() *link.Link {
	g.t.Helper()
	host, guest := net.Pipe()
	end := link.NewGuest(guest, link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }})
	var work sync.WaitGroup
	work.Go(func() { end.Run() })
	work.Go(func() { g.accept(end, &work) })
	l, err := link.Host(g.t.Context(), host, link.Sync{Execution: "exe_test", Epoch: 1, Adopt: true})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { l.Close(); guest.Close(); work.Wait() })
	return l
}

func (g *fakeGuest) accept(end *link.Guest, work *sync.WaitGroup) {
	for {
		st, err := end.Accept(context.Background())
		if err != nil {
			return
		}
		work.Go(func() { g.serve(st) })
	}
}

func (g *fakeGuest) proc(id string) *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.procs[id]
	if !ok {
		p = &process{changed: make(chan struct{})}
		g.procs[id] = p
	}
	return p
}

func (g *fakeGuest) serve(st *link.Stream) {
	defer st.Reset(link.CodeCancelled)
	b, err := st.Recv(context.Background())
	if err != nil {
		return
	}
	call := new(guestv1.Call)
	if err := proto.Unmarshal(b, call); err != nil {
		g.t.Error(err)
		return
	}
	switch c := call.GetCall().(type) {
	case *guestv1.Call_OpenSession:
		g.session(st, c.OpenSession)
	case *guestv1.Call_ForgetSession:
		p := g.proc(c.ForgetSession.GetSession())
		p.change(func() { p.forgotten = true })
		b, _ := proto.Marshal(&guestv1.Forgotten{})
		st.Send(context.Background(), b)
		st.CloseSend()
		st.Recv(context.Background())
	}
}

func (g *fakeGuest) session(st *link.Stream, o *guestv1.OpenSession) {
	if g.wait != nil && !g.wait() {
		st.Reset(link.CodeRefused)
		return
	}
	p := g.proc(o.GetSession())
	p.change(func() { p.starts = max(p.starts, 1); p.acked = o.GetAcknowledged(); p.stdinWant = o.GetStdinBytes() })
	p.mu.Lock()
	received := uint64(len(p.stdin))
	p.mu.Unlock()
	g.send(st, &guestv1.FromSession{Message: &guestv1.FromSession_Opened{Opened: &guestv1.Opened{StartedUnixNanos: 1e9, StdinReceived: received, Pid: 42}}})
	gone := make(chan struct{})
	go func() { defer close(gone); p.listen(st, o.GetSpec().GetOpenStdin()) }()
	sent, told := o.GetAcknowledged(), &guestv1.StdinState{}
	for {
		p.mu.Lock()
		state := &guestv1.StdinState{Received: uint64(len(p.stdin)), Taken: p.taken}
		rest := p.piece(sent)
		exit, changed := p.exit, p.changed
		p.mu.Unlock()
		if o.GetSpec().GetOpenStdin() && !proto.Equal(state, told) {
			told = state
			g.send(st, &guestv1.FromSession{Message: &guestv1.FromSession_Stdin{Stdin: state}})
		}
		if len(rest) > 0 {
			g.send(st, &guestv1.FromSession{Message: &guestv1.FromSession_Output{Output: &sessionv1.Output{
				Stream: sessionv1.Stream_STREAM_STDOUT, Offset: sent, Data: rest,
			}}})
			sent += uint64(len(rest))
			continue
		}
		if exit != nil {
			g.send(st, &guestv1.FromSession{Message: &guestv1.FromSession_Exit{Exit: exit}})
			<-gone
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

// piece returns a copy of the log from an offset on. mu is held.
func (p *process) piece(from uint64) []byte {
	if p.flood == nil {
		return bytes.Clone(p.log[from:min(int(from)+pieceBytes, len(p.log))])
	}
	b := make([]byte, min(pieceBytes, p.length-from))
	p.flood(from, b)
	return b
}

func (p *process) listen(st *link.Stream, open bool) {
	for {
		b, err := st.Recv(context.Background())
		if err != nil {
			return
		}
		m := new(guestv1.ToSession)
		proto.Unmarshal(b, m)
		p.change(func() {
			switch c := m.GetStdin(); {
			case m.GetSignal() != 0:
				p.signals = append(p.signals, m.GetSignal())
			case m.GetResize() != nil:
				p.size = m.GetResize()
			case c == nil:
				p.acked = m.GetAcknowledged()
			case open && c.GetOffset()+uint64(len(c.GetData())) > p.taken+guestWindow:
				st.Reset(link.CodeProtocol)
			case c.GetOffset() <= uint64(len(p.stdin)):
				// What came before, by a stream that was replaced say, is ignored: nothing that the guest has gets less.
				p.stdin = append(p.stdin, c.GetData()[min(uint64(len(p.stdin))-c.GetOffset(), uint64(len(c.GetData()))):]...)
				p.stdinEnd = p.stdinEnd || c.GetEnd()
			}
		})
	}
}

func (g *fakeGuest) send(st *link.Stream, m *guestv1.FromSession) {
	if g.lie != nil {
		g.lie(m)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		g.t.Error(err)
	}
	st.Send(context.Background(), b)
}

func (p *process) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) print(data []byte) { p.change(func() { p.log = append(p.log, data...) }) }

func (p *process) end(code int32) {
	p.change(func() { p.exit = &sessionv1.Exit{Code: code, Offset: uint64(len(p.log))} })
}

// await waits until the test's condition holds.
func (p *process) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for {
		p.mu.Lock()
		done, changed := ok(), p.changed
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-time.After(2 * sendTimeout):
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
