package link

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// liar is a guest that answers the handshake and then writes whatever a test says.
type liar struct {
	t      *testing.T
	conn   net.Conn
	frames *frameReader
	link   uint64
}

// lie makes a link to a liar.
func lie(t *testing.T) (*Link, *liar) {
	host, guest := socketPair(t)
	g := &liar{t: t, conn: guest, frames: newFrameReader(guest)}
	up := make(chan struct{})
	go func() {
		defer close(up)
		f, err := g.frames.next()
		if err != nil {
			return
		}
		g.link = f.link
		g.write(frame{kind: kindAck, payload: ack{Version, 1}.encode()})
	}()
	l, err := Host(testContext(t), host, first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	<-up
	return l, g
}

func (g *liar) write(f frame) error {
	f.link = g.link
	_, err := g.conn.Write(appendFrame(nil, f))
	return err
}

// drain reads what the host sends, so that nothing of it is in the way.
func (g *liar) drain() {
	for {
		if _, err := g.frames.next(); err != nil {
			return
		}
	}
}

func amount(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func TestLyingGuestIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		frames  []frame
		endless bool // the last one again and again
	}{
		"a stream that was never opened": {frames: []frame{{kind: kindData, stream: 99}}},
		"stream 0":                       {frames: []frame{{kind: kindData}}},
		"OPEN":                           {frames: []frame{{kind: kindOpen, stream: 2}}},
		"SYNC":                           {frames: []frame{{kind: kindSync}}},
		"CLOCK":                          {frames: []frame{{kind: kindClock}}},
		"an unknown kind":                {frames: []frame{{kind: 200, stream: 1}}},
		"a second ACK":                   {frames: []frame{{kind: kindAck, payload: ack{Version, 1}.encode()}}},
		"a REFUSE afterwards":            {frames: []frame{{kind: kindRefuse, payload: RefusedError{}.encode()}}},
		"a malformed ACK":                {frames: []frame{{kind: kindAck, payload: []byte("x")}}},
		"credit overrun":                 {frames: []frame{{kind: kindData, stream: 1, payload: make([]byte, MaxPayload)}}, endless: true},
		"empty frames without end":       {frames: []frame{{kind: kindData, stream: 1}}, endless: true},
		"small pieces without end":       {frames: []frame{{kind: kindData, stream: 1, flags: flagMore, payload: []byte("x")}}},
		"credit from nowhere":            {frames: []frame{{kind: kindWindow, stream: 1, payload: amount(1 << 20)}}},
		"no credit":                      {frames: []frame{{kind: kindWindow, stream: 1, payload: amount(0)}}},
		"a malformed WINDOW":             {frames: []frame{{kind: kindWindow, stream: 1}}},
		"a malformed RESET":              {frames: []frame{{kind: kindReset, stream: 1}}},
		"CLOSE twice":                    {frames: []frame{{kind: kindClose, stream: 1}, {kind: kindClose, stream: 1}}},
		"DATA after CLOSE":               {frames: []frame{{kind: kindClose, stream: 1}, {kind: kindData, stream: 1}}},
		"frames after RESET":             {frames: []frame{{kind: kindReset, stream: 1, payload: amount(1)}, {kind: kindData, stream: 1, payload: make([]byte, MaxPayload)}}, endless: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, g := lie(t)
			s, err := l.Open(testContext(t), []byte("call"))
			if err != nil {
				t.Fatal(err)
			}
			go g.drain()
			for _, f := range c.frames {
				g.write(f)
			}
			for last := c.frames[len(c.frames)-1]; c.endless && g.write(last) == nil; {
			}
			<-l.Done()
			var protocol *ProtocolError
			if !errors.As(l.Err(), &protocol) {
				t.Errorf("the link ended with %v, want a protocol error", l.Err())
			}
			if _, err := s.Recv(testContext(t)); err == nil {
				t.Error("its stream goes on")
			}
			if _, err := l.Open(testContext(t), nil); !errors.As(err, &protocol) {
				t.Errorf("open: %v, want the link's end", err)
			}
		})
	}
}

func TestGarbageWithoutEndIsCut(t *testing.T) {
	all := testContext(t)
	for name, garbage := range map[string][]byte{
		"zeros":        make([]byte, 64<<10),
		"magic":        []byte(strings.Repeat("\xa5\x5c", 32<<10)),
		"other links":  appendFrame(nil, frame{kind: kindData, stream: 1, link: 1, payload: make([]byte, MaxPayload)}),
		"bad payloads": corrupt(appendFrame(nil, frame{kind: kindData, stream: 1, link: 1, payload: make([]byte, MaxPayload)})),
	} {
		for between, f := range map[string][]byte{"": nil, " with frames between": appendFrame(nil, frame{kind: kindAck + 100, link: 1})} {
			t.Run(name+between, func(t *testing.T) {
				l, g := lie(t)
				go g.drain()
				for sent := 0; sent < 4*maxStale; sent += len(garbage) { // more than stays on the way
					if _, err := g.conn.Write(append(garbage, f...)); err != nil {
						break
					}
				}
				select {
				case <-l.Done():
				case <-all.Done():
				}
				var protocol *ProtocolError
				if !errors.As(l.Err(), &protocol) {
					t.Errorf("the link ended with %v, want a protocol error", l.Err())
				}
			})
		}
	}
}

func corrupt(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

func TestGarbageThatACutFrameExplainsIsSkipped(t *testing.T) {
	l, g := lie(t)
	half := appendFrame(nil, frame{kind: kindData, stream: 9, link: 1, payload: make([]byte, MaxPayload)})
	g.conn.Write(half[1000:])
	s, err := l.Open(testContext(t), []byte("call"))
	if err != nil {
		t.Fatal(err)
	}
	g.write(frame{kind: kindData, stream: 1, payload: []byte("answer")})
	if msg, err := s.Recv(testContext(t)); string(msg) != "answer" {
		t.Errorf("got %q, %v", msg, err)
	}
}

// TestOnlyEndlessMessagesEndTheirStream: a message over the limit is one stream's problem.
func TestOverlongMessageEndsItsStream(t *testing.T) {
	l, g := lie(t)
	s, err := l.Open(testContext(t), []byte("call"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Open(testContext(t), []byte("call"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range MaxMessage/MaxPayload + 2 {
			if waitCredit(g) != nil || g.write(frame{kind: kindData, stream: 1, flags: flagMore, payload: make([]byte, MaxPayload)}) != nil {
				return
			}
		}
		g.write(frame{kind: kindData, stream: 2, payload: []byte("x")})
	}()
	if _, err := s.Recv(testContext(t)); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v, want %v", err, ErrTooLong)
	}
	if _, err := other.Recv(testContext(t)); err != nil {
		t.Errorf("the other stream: %v", err)
	}
}

// waitCredit makes a liar honest for one frame: it waits until the host has given credit, every other frame or so.
func waitCredit(g *liar) error {
	g.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	for {
		_, err := g.frames.next()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func TestGuestThatTakesNothingStalls(t *testing.T) {
	l, _ := lie(t)
	l.w.stall.Store(int64(50 * time.Millisecond))
	ctx := testContext(t)
	for {
		s, err := l.Open(ctx, make([]byte, Window/2))
		if err != nil {
			break
		}
		go s.Send(ctx, make([]byte, Window/4))
	}
	<-l.Done()
	if !errors.Is(l.Err(), ErrStalled) {
		t.Errorf("the link ended with %v, want %v", l.Err(), ErrStalled)
	}
}

func TestGuestThatHoldsBackAnAnswerCostsTheCallersDeadline(t *testing.T) {
	l, g := lie(t)
	go g.drain()
	s, err := l.Open(testContext(t), []byte("call"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	if l.Err() != nil {
		t.Errorf("the link ended: %v", l.Err())
	}
}
