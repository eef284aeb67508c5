package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// Hooks is what a guest does for a host. Both run on the reader's goroutine: nothing else is read meanwhile.
type Hooks struct {
	// Sync sets the clock, re-seeds the generator and takes the name, before the ACK. An error refuses the SYNC.
	Sync func(Sync) error
	// Clock sets the clock.
	Clock func(time.Time) error
}

// Guest is the guest's end: one port, any number of links, one after the other.
type Guest struct {
	port  io.ReadWriter
	hooks Hooks
	w     *writer

	mu      sync.Mutex
	is      Sync          // the identity taken; its epoch is 0 before the first
	cur     *mux          // of the newest link
	changed chan struct{} // closed and replaced when cur changes
	err     error         // why Run ended
}

// NewGuest returns a guest that serves the port once Run is called. Its Read must not return 0 bytes without an error.
func NewGuest(port io.ReadWriter, h Hooks) *Guest {
	g := &Guest{port: port, hooks: h, w: newWriter(port), changed: make(chan struct{})}
	g.cur = newMux(0, g.w, false)
	return g
}

// Run reads the port until that fails, and returns why. Close the port to end it.
func (g *Guest) Run() error {
	var writer sync.WaitGroup
	writer.Go(func() { g.w.run(func() {}) })
	err := g.read()
	g.mu.Lock()
	g.err = err
	cur := g.cur
	close(g.changed)
	g.mu.Unlock()
	cur.fail(ErrClosed)
	g.w.stop()
	writer.Wait()
	return err
}

func (g *Guest) read() error {
	frames := newFrameReader(g.port)
	for {
		f, err := frames.next()
		if err != nil {
			return fmt.Errorf("read from the host: %w", err)
		}
		g.take(f)
	}
}

// Accept waits for a stream that the host opened; its first message is the first that Recv returns. Streams of an older link are
// never returned.
func (g *Guest) Accept(ctx context.Context) (*Stream, error) {
	for {
		g.mu.Lock()
		cur, changed, err := g.cur, g.changed, g.err
		g.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if s := cur.accept(); s != nil {
			return s, nil
		}
		select {
		case <-cur.accepted:
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Identity is the execution and epoch that the guest has; the epoch is 0 before the first SYNC.
func (g *Guest) Identity() (execution string, epoch uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.is.Execution, g.is.Epoch
}

// take dispatches a frame. What makes no sense ends the link, never the guest.
func (g *Guest) take(f frame) {
	switch {
	case f.kind == kindSync:
		g.takeSync(f)
	case f.link != g.cur.link || f.link == 0:
		// of a link that is no more
	case f.kind == kindClock:
		if t, ok := decodeClock(f.payload); ok {
			g.hooks.Clock(t)
		}
	default:
		if err := g.cur.handle(f); err != nil {
			g.cur.fail(err)
			g.w.post(frame{kind: kindReset, link: g.cur.link, payload: binary.LittleEndian.AppendUint32(nil, uint32(CodeProtocol))})
		}
	}
}

// takeSync answers a SYNC. Only the reader's goroutine changes is and cur, so it reads them without the mutex.
func (g *Guest) takeSync(f frame) {
	version, s, ok := decodeSync(f.link, f.payload)
	if reason := g.judge(version, s, ok); reason != 0 {
		g.refuse(f.link, reason)
		return
	}
	if s.Link == g.is.Link { // a repetition: the ACK was late or lost, and the time is fresher
		g.hooks.Clock(s.Time)
	} else if err := g.hooks.Sync(s); err != nil {
		g.refuse(f.link, RefusedSync)
		return
	} else {
		g.replace(s)
	}
	g.w.answer(frame{kind: kindAck, link: s.Link, payload: ack{Version, s.Epoch}.encode()})
}

// judge says why a SYNC isn't taken; 0 if it is.
func (g *Guest) judge(version uint16, s Sync, ok bool) Refusal {
	same := s.Execution == g.is.Execution
	switch {
	case version != Version:
		return RefusedVersion
	case !ok:
		return RefusedSync
	case !s.Adopt && (!same || s.Epoch != g.is.Epoch):
		return RefusedIdentity
	case s.Adopt && same && s.Epoch < g.is.Epoch:
		return RefusedIdentity
	case s.Link < g.is.Link:
		return RefusedLink
	case s.Link == g.is.Link && (!same || s.Epoch != g.is.Epoch):
		return RefusedLink
	}
	return 0
}

func (g *Guest) refuse(link uint64, r Refusal) {
	e := RefusedError{Reason: r, Epoch: g.is.Epoch, Link: g.is.Link}
	g.w.answer(frame{kind: kindRefuse, link: link, payload: e.encode()})
}

// replace starts a new link and ends the one before.
func (g *Guest) replace(s Sync) {
	s.Seed = [SeedBytes]byte{} // it has done its work; don't keep it
	g.cur.fail(ErrReplaced)
	g.w.restart(s.Link)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.is = s
	g.cur = newMux(s.Link, g.w, false)
	close(g.changed)
	g.changed = make(chan struct{})
}
