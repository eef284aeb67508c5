package telemetry

import (
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"
)

// clientStream is a stream to another process; it has ended when its last message was received, or it's closed.
type clientStream struct {
	connect.StreamingClientConn
	end  func(error)
	once sync.Once
}

// Receive implements connect.StreamingClientConn.
func (s *clientStream) Receive(m any) error {
	err := s.StreamingClientConn.Receive(m)
	switch {
	case errors.Is(err, io.EOF):
		s.once.Do(func() { s.end(nil) })
	case err != nil:
		s.once.Do(func() { s.end(err) })
	}
	return err
}

// CloseResponse implements connect.StreamingClientConn.
func (s *clientStream) CloseResponse() error {
	err := s.StreamingClientConn.CloseResponse()
	s.once.Do(func() { s.end(nil) }) // who closes a stream has what they wanted of it
	return err
}
