package edge

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// errSlow says that a client took an event only after the time it has for one. The event did get through.
var errSlow = errors.New("the client doesn't keep up")

// sink writes to one client, with a deadline for each event.
type sink struct {
	w           *answer
	slow, grace time.Duration
}

func newSink(w *answer, t timing) *sink { return &sink{w: w, slow: t.slow, grace: t.grace} }

// eventStream is the media type of events.
const eventStream = "text/event-stream"

// begin answers 200, unless the stream has begun with its session's creation.
func (s *sink) begin() {
	if !s.w.begun {
		s.open(http.StatusOK)
	}
}

// flush sends what there is: no proxy on the way shall keep anything back.
func (s *sink) flush() error { return s.w.flow.Flush() }

// open is the answer's header.
func (s *sink) open(status int) {
	h := s.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(status)
}

func (s *sink) event(e event) error {
	frame, err := e.frame()
	if err != nil {
		return err
	}
	err = s.write(frame, s.slow)
	if e.last && errors.Is(err, errSlow) {
		return nil // it has everything
	}
	return err
}

// hold writes an event that is sent with what follows at once.
func (s *sink) hold(e event) error {
	frame, err := e.frame()
	if err == nil {
		_, err = s.w.Write(frame)
	}
	return err
}

func (s *sink) keepAlive() error { return s.write([]byte(comment), s.slow) }

// farewell sends a last event to a client that has only the grace left.
func (s *sink) farewell(e event) error {
	frame, err := e.frame()
	if err != nil {
		return err
	}
	return s.write(frame, 0)
}

// write sends a frame whole. A client that takes longer than slow but has it within the grace gets errSlow: there is still time
// to say so. After any other error the connection is of no use.
func (s *sink) write(frame []byte, slow time.Duration) error {
	began := time.Now()
	if err := s.w.flow.SetWriteDeadline(began.Add(slow + s.grace)); err != nil {
		return fmt.Errorf("limit the time for an event: %w", err)
	}
	if _, err := s.w.Write(frame); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := s.w.flow.Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if slow > 0 && time.Since(began) > slow {
		return errSlow
	}
	return nil
}
