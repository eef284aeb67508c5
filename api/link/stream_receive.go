package link

import (
	"encoding/binary"
	"errors"
)

// errEmpty says that a stream has nothing to take yet.
var errEmpty = errors.New("nothing received")

// receive takes a frame of this stream. It never waits. An error is a violation, which ends the link. over is true when the stream is
// complete in both directions.
func (s *Stream) receive(f frame) (over bool, err error) {
	switch f.kind {
	case kindOpen, kindData:
		return false, s.receiveData(f)
	case kindWindow:
		return false, s.receiveWindow(f)
	case kindClose:
		return s.receiveClose()
	case kindReset:
		if len(f.payload) != 4 {
			return false, violation("a RESET of %d bytes", len(f.payload))
		}
		s.fail(&ResetError{Code: Code(binary.LittleEndian.Uint32(f.payload)), Remote: true})
		return true, nil
	}
	return false, violation("a frame of kind %d on a stream", f.kind)
}

func (s *Stream) receiveData(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recvClosed {
		return violation("DATA after CLOSE")
	}
	if f.more() && len(f.payload) != MaxPayload {
		return violation("a message cut into needlessly small pieces")
	}
	if s.granted -= cost(len(f.payload)); s.granted < 0 {
		return violation("a stream's credit was overrun")
	}
	if s.err != nil {
		return nil // it failed a moment ago and is about to be removed
	}
	s.queue = append(s.queue, piece{data: append([]byte{}, f.payload...), more: f.more()})
	wakeUp(s.readable)
	return nil
}

func (s *Stream) receiveWindow(f frame) error {
	if len(f.payload) != 4 {
		return violation("a WINDOW of %d bytes", len(f.payload))
	}
	n := binary.LittleEndian.Uint32(f.payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 || int64(s.credit)+int64(n) > Window {
		return violation("credit that was never used was given back")
	}
	s.credit += int(n)
	wakeUp(s.writable)
	return nil
}

func (s *Stream) receiveClose() (over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recvClosed {
		return false, violation("CLOSE twice")
	}
	s.recvClosed = true
	wakeUp(s.readable)
	return s.sendClosed, nil
}
