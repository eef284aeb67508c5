package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// keepAlive is the longest silence of a stream.
	keepAlive = 15 * time.Second
	// sseWriteTimeout ends a stream whose client takes nothing for that long.
	sseWriteTimeout = 10 * time.Second
)

// sse writes server-sent events. It's for one goroutine.
type sse struct {
	control *http.ResponseController
	buffer  *bufio.Writer
	broken  bool // the client is gone, or takes nothing
}

// newSSE begins a stream.
func newSSE(w http.ResponseWriter) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that would collect it
	w.WriteHeader(http.StatusOK)
	return &sse{control: http.NewResponseController(w), buffer: bufio.NewWriter(w)}
}

// event adds an event; it's sent at the next flush. The id may be empty.
func (s *sse) event(name, id string, data any) error {
	if id != "" {
		fmt.Fprintf(s.buffer, "id: %s\n", id)
	}
	_, err := fmt.Fprintf(s.buffer, "event: %s\ndata: %s\n\n", name, marshal(data))
	return s.note(err)
}

// position sends the id to come back with, which isn't an event.
func (s *sse) position(id string) error {
	fmt.Fprintf(s.buffer, ": follow\nid: %s\n\n", id)
	return s.flush()
}

// comment sends what keeps a connection alive and means nothing.
func (s *sse) comment() error {
	fmt.Fprint(s.buffer, ": keep-alive\n\n")
	return s.flush()
}

// flush sends what was added.
func (s *sse) flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(sseWriteTimeout)); err != nil {
		return s.note(err)
	}
	if err := s.buffer.Flush(); err != nil {
		return s.note(err)
	}
	return s.note(s.control.Flush())
}

func (s *sse) note(err error) error {
	s.broken = s.broken || err != nil
	return err
}

type streamKey struct{}

// streaming reports whether the client asks for a stream.
func streaming(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }
