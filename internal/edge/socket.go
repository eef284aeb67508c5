package edge

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// socket is a client's WebSocket. What it reads and writes isn't bound to the request's context, whose end the client is to be told of: a
// goodbye, or closing it, ends both.
type socket struct {
	conn   *websocket.Conn
	timing timing
	last   event       // that was sent
	paused atomic.Bool // nothing is read, because the session takes no input right now
	gone   atomic.Bool // the client has left
}

func (s *socket) begin() {}

func (s *socket) flush() error { return nil }

// keepAlive does nothing: see ping.
func (s *socket) keepAlive() error { return nil }

func (s *socket) event(e event) error { return s.send(e, s.timing.slow) }

func (s *socket) farewell(e event) error { return s.send(e, 0) }

// send sends an event whole. As of a sink, a client that takes longer than slow but has it within the grace gets errSlow.
func (s *socket) send(e event, slow time.Duration) error {
	b, err := e.message()
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), slow+s.timing.grace)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageBinary, b); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	s.last = e
	if slow > 0 && time.Since(began) > slow && !e.last {
		return errSlow
	}
	return nil
}

// tell sends a message beside the session's events. A client that doesn't take it loses the connection.
func (s *socket) tell(e event) {
	b, err := e.message()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timing.slow)
	defer cancel()
	s.conn.Write(ctx, websocket.MessageBinary, b)
}

// problem tells that something the client sent couldn't be followed.
func (s *socket) problem(err error) { s.tell(event{name: "error", data: problem(err)}) }

// read hands on what the client sends, until it leaves or breaks the protocol.
func (s *socket) read(ctx context.Context, in *input) {
	defer s.gone.Store(true)
	for {
		kind, b, err := s.conn.Read(context.Background())
		if err != nil {
			return
		}
		if kind != websocket.MessageBinary {
			s.conn.Close(websocket.StatusUnsupportedData, "messages are binary")
			return
		}
		f, err := readFrame(b)
		if err == nil {
			err = in.take(ctx, f)
		}
		if err != nil && ctx.Err() == nil {
			s.problem(err)
		}
	}
}

// ping finds out whether the client is still there. While nothing is read of it, it can't answer.
func (s *socket) ping(ctx context.Context, gone func()) {
	t := time.NewTicker(s.timing.keepAlive)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if !s.paused.Load() && !s.answers() && !s.paused.Load() {
			s.gone.Store(true)
			gone()
			return
		}
	}
}

func (s *socket) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.timing.slow+s.timing.grace)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// goodbye closes the connection in the way of its last event.
func (s *socket) goodbye() {
	switch {
	case !s.last.last || s.gone.Load():
		return
	case s.last.name != "ended":
		s.conn.Close(websocket.StatusNormalClosure, s.last.name)
	case s.last.data.(map[string]any)["reason"] == reasonShuttingDown:
		s.conn.Close(websocket.StatusGoingAway, reasonShuttingDown)
	case s.last.data.(map[string]any)["reason"] == reasonTokenEnded:
		s.conn.Close(websocket.StatusPolicyViolation, reasonTokenEnded)
	default:
		s.conn.Close(websocket.StatusTryAgainLater, "attach again")
	}
}
