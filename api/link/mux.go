package link

import (
	"context"
	"encoding/binary"
	"sync"
)

// mux is the streams of one link. Its link number never changes; a new link has a new mux.
type mux struct {
	link uint64
	w    *writer
	host bool
	done chan struct{} // closed when err is set

	opening chan struct{} // host: held by the one that opens

	mu       sync.Mutex
	streams  map[uint32]*Stream
	last     uint32        // the highest number opened
	waiting  []*Stream     // guest: opened by the host, not accepted yet; part of streams
	accepted chan struct{} // guest: something is waiting
	strays   int64         // bytes that may still arrive for streams that ended
	err      error
}

// strayBudget is what a peer may send for one ended stream before it can know of the end: all its credit, and credit given back.
const strayBudget = 2 * Window

func newMux(link uint64, w *writer, host bool) *mux {
	return &mux{link: link, w: w, host: host, done: make(chan struct{}), opening: make(chan struct{}, 1), streams: map[uint32]*Stream{}, accepted: make(chan struct{}, 1)}
}

// open starts a new stream; host only.
func (m *mux) open(ctx context.Context, first []byte) (*Stream, error) {
	s, rest, err := m.begin(ctx, first)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		err = s.sendPieces(ctx, rest, true)
	}
	return s, err
}

// begin sends OPEN with the first piece of a message. OPENs leave in the order of their numbers, so one goes at a time.
func (m *mux) begin(ctx context.Context, first []byte) (s *Stream, rest []byte, err error) {
	select {
	case m.opening <- struct{}{}:
		defer func() { <-m.opening }()
	case <-m.done:
		return nil, nil, m.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if s, err = m.add(); err != nil {
		return nil, nil, err
	}
	f, rest := s.cut(kindOpen, first)
	if err := s.sendPiece(ctx, f); err != nil {
		s.fail(&ResetError{Code: CodeCancelled})
		m.remove(s)
		return nil, nil, err
	}
	return s, rest, nil
}

// add makes a stream with the next number.
func (m *mux) add() (*Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	if len(m.streams) >= MaxStreams {
		return nil, ErrTooMany
	}
	m.last++
	s := newStream(m, m.last)
	m.streams[s.id] = s
	return s, nil
}

// handle takes a frame of this link. An error ends the link.
func (m *mux) handle(f frame) error {
	select {
	case <-m.done:
		return nil
	default:
	}
	if f.stream == 0 {
		return m.handleLink(f)
	}
	if f.kind == kindOpen {
		return m.handleOpen(f)
	}
	m.mu.Lock()
	s := m.streams[f.stream]
	m.mu.Unlock()
	if s == nil {
		return m.stray(f)
	}
	over, err := s.receive(f)
	if err != nil {
		return err
	}
	if over {
		m.remove(s)
	}
	return nil
}

// handleLink takes a frame of the link itself that is no part of the handshake.
func (m *mux) handleLink(f frame) error {
	if f.kind == kindReset && len(f.payload) == 4 {
		return violation("the other side ended the link, code %d", binary.LittleEndian.Uint32(f.payload))
	}
	return violation("a frame of kind %d without a stream", f.kind)
}

// handleOpen takes a new stream; guest only.
func (m *mux) handleOpen(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.host || f.stream <= m.last {
		return violation("OPEN of a stream that this side can't get")
	}
	m.last = f.stream
	if len(m.streams) >= MaxStreams {
		return m.w.post(frame{kind: kindReset, stream: f.stream, link: m.link, payload: binary.LittleEndian.AppendUint32(nil, uint32(CodeRefused))})
	}
	s := newStream(m, f.stream)
	if _, err := s.receive(f); err != nil {
		return err
	}
	m.streams[s.id] = s
	m.waiting = append(m.waiting, s)
	wakeUp(m.accepted)
	return nil
}

// stray takes a frame of a stream that isn't there: it ended and the peer couldn't know yet, or it never was.
func (m *mux) stray(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.stream > m.last {
		return violation("a frame of a stream that was never opened")
	}
	if m.strays -= int64(cost(len(f.payload))); m.strays < 0 {
		return violation("frames of streams that have ended")
	}
	return nil
}

// accept takes the oldest stream that the host opened, if there is one.
func (m *mux) accept() *Stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return nil
	}
	s := m.waiting[0]
	m.waiting = m.waiting[1:]
	return s
}

// remove forgets a stream that has ended.
func (m *mux) remove(s *Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[s.id] != s {
		return
	}
	delete(m.streams, s.id)
	m.strays = min(m.strays+strayBudget, MaxStreams*strayBudget)
}

// fail ends the link's streams with err.
func (m *mux) fail(err error) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return
	}
	m.err = err
	streams := m.streams
	m.streams, m.waiting = map[uint32]*Stream{}, nil
	close(m.done)
	m.mu.Unlock()
	for _, s := range streams {
		s.fail(err)
	}
}
