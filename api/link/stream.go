package link

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
)

// Stream is one call: messages in both directions. Its methods may be called from any goroutine; of several Sends, and of
// several Recvs, one goes at a time.
type Stream struct {
	m  *mux
	id uint32

	sendTurn chan struct{} // held by the one that sends
	recvTurn chan struct{} // held by the one that receives; guards partial
	partial  []byte        // pieces of the message being received
	readable chan struct{} // something happened that Recv waits for
	writable chan struct{} // something happened that Send waits for
	done     chan struct{} // closed when err is set

	mu         sync.Mutex
	queue      []piece // received, not taken; bounded by the window
	credit     int     // what may still be sent
	granted    int     // what the peer may still send
	owed       int     // taken from the queue, not yet given back
	sendClosed bool
	recvClosed bool
	err        error // why the stream ended before both sides closed it
}

// piece is a frame's share of a message.
type piece struct {
	data []byte
	more bool
}

func newStream(m *mux, id uint32) *Stream {
	return &Stream{
		m: m, id: id,
		sendTurn: make(chan struct{}, 1), recvTurn: make(chan struct{}, 1),
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), done: make(chan struct{}),
		credit: Window, granted: Window,
	}
}

// Done is closed when the stream was reset or its link ended; not when both sides closed it.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Send sends one message of at most MaxMessage bytes and returns when it is queued for the port; msg may be used again then. If ctx
// ends when a part is already on its way, the stream is reset.
// Errors: ErrTooLong, ErrSendClosed, a *ResetError, the link's end, or the cause of ctx's.
func (s *Stream) Send(ctx context.Context, msg []byte) error {
	if len(msg) > MaxMessage {
		return ErrTooLong
	}
	if err := s.turn(ctx, s.sendTurn); err != nil {
		return err
	}
	defer func() { <-s.sendTurn }()
	return s.sendPieces(ctx, msg, false)
}

// sendPieces sends a message, or what is left of one that has begun.
func (s *Stream) sendPieces(ctx context.Context, msg []byte, begun bool) error {
	for {
		f, rest := s.cut(kindData, msg)
		if err := s.sendPiece(ctx, f); err != nil {
			if begun {
				s.Reset(CodeCancelled)
			}
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		msg, begun = rest, true
	}
}

// cut makes a frame of the beginning of a message.
func (s *Stream) cut(k kind, msg []byte) (f frame, rest []byte) {
	n := min(len(msg), MaxPayload)
	f = frame{kind: k, stream: s.id, link: s.m.link, payload: msg[:n]}
	if n < len(msg) {
		f.flags = flagMore
	}
	return f, msg[n:]
}

// sendPiece waits for credit and room and queues a frame.
func (s *Stream) sendPiece(ctx context.Context, f frame) error {
	if err := s.takeCredit(ctx, cost(len(f.payload))); err != nil {
		return err
	}
	if err := s.m.w.send(ctx, s.done, f); err != nil {
		s.addCredit(cost(len(f.payload)))
		return s.reason(err)
	}
	return nil
}

// takeCredit waits until n bytes may be sent.
func (s *Stream) takeCredit(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		err, ok := s.err, s.credit >= n
		if err == nil && s.sendClosed {
			err = ErrSendClosed
		}
		if err == nil && ok {
			s.credit -= n
		}
		s.mu.Unlock()
		if err != nil || ok {
			return err
		}
		select {
		case <-s.writable:
		case <-s.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Recv returns the next message. The slice is the caller's. It returns io.EOF when the other side closed its sending side and
// everything was received. If ctx ends the message isn't lost: the next Recv goes on with it.
// Errors: io.EOF, a *ResetError, ErrTooLong, the link's end, or the cause of ctx's.
func (s *Stream) Recv(ctx context.Context) ([]byte, error) {
	if err := s.turn(ctx, s.recvTurn); err != nil {
		return nil, err
	}
	defer func() { <-s.recvTurn }()
	for {
		p, err := s.takePiece(ctx)
		if err != nil {
			return nil, err
		}
		if len(s.partial)+len(p.data) > MaxMessage {
			s.Reset(CodeProtocol)
			return nil, ErrTooLong
		}
		if !p.more && s.partial == nil {
			return p.data, nil
		}
		s.partial = append(s.partial, p.data...)
		if !p.more {
			msg := s.partial
			s.partial = nil
			return msg, nil
		}
	}
}

// takePiece waits for a piece and gives its credit back. What was received before a reset is still handed out only if the
// other side closed properly: after a reset the error comes first.
func (s *Stream) takePiece(ctx context.Context) (piece, error) {
	for {
		p, give, err := s.pop()
		if give > 0 {
			s.m.w.post(frame{kind: kindWindow, stream: s.id, link: s.m.link, payload: binary.LittleEndian.AppendUint32(nil, uint32(give))})
		}
		if err != errEmpty {
			return p, err
		}
		select {
		case <-s.readable:
		case <-s.done:
		case <-ctx.Done():
			return piece{}, context.Cause(ctx)
		}
	}
}

// pop takes a piece, and says how much credit to give back: in lumps of a quarter of the window.
func (s *Stream) pop() (p piece, give int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return piece{}, 0, s.err
	case len(s.queue) == 0 && s.recvClosed:
		return piece{}, 0, io.EOF
	case len(s.queue) == 0:
		return piece{}, 0, errEmpty
	}
	p = s.queue[0]
	s.queue[0] = piece{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	if s.owed += cost(len(p.data)); s.owed >= Window/4 && !s.recvClosed {
		give, s.owed = s.owed, 0
		s.granted += give
	}
	return p, give, nil
}

// CloseSend tells the other side that no more messages follow. It doesn't wait, and may be called again.
func (s *Stream) CloseSend() error {
	s.mu.Lock()
	if s.err != nil || s.sendClosed {
		defer s.mu.Unlock()
		return s.err
	}
	s.sendClosed = true
	over := s.recvClosed
	s.mu.Unlock()
	wakeUp(s.writable)
	err := s.m.w.post(frame{kind: kindClose, stream: s.id, link: s.m.link})
	if over {
		s.m.remove(s)
	}
	return s.reason(err)
}

// Reset ends the stream in both directions and tells the other side why. After the stream's end it does nothing.
func (s *Stream) Reset(c Code) {
	s.mu.Lock()
	over := s.sendClosed && s.recvClosed
	s.mu.Unlock()
	if s.fail(&ResetError{Code: c}) && !over {
		s.m.w.post(frame{kind: kindReset, stream: s.id, link: s.m.link, payload: binary.LittleEndian.AppendUint32(nil, uint32(c))})
	}
	s.m.remove(s)
}

// fail ends the stream with an error, unless it has one.
func (s *Stream) fail(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	s.queue = nil
	close(s.done)
	return true
}

// turn waits for the right to send or receive.
func (s *Stream) turn(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-s.done:
		return s.reason(nil)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reason prefers the stream's own end to err.
func (s *Stream) reason(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return err
}

func (s *Stream) addCredit(n int) {
	s.mu.Lock()
	s.credit += n
	s.mu.Unlock()
	wakeUp(s.writable)
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
