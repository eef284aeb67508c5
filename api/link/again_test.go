package link

import (
	"context"
	"errors"
	"testing"
)

// TestGreetedAgainOverTheSameConnection is what a machine of the pool goes through: calls of before end with a typed error, and it is another one.
func TestGreetedAgainOverTheSameConnection(t *testing.T) {
	p := newPort()
	ended := make(chan error, 1)
	g := serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) {
		msg, _ := s.Recv(ctx)
		s.Send(ctx, msg)
		if string(msg) == "wait" {
			_, err := s.Recv(ctx)
			ended <- err
			return
		}
		s.CloseSend()
	})
	l := connect(t, p, first)
	ctx := testContext(t)
	old, err := l.Open(ctx, []byte("wait"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	for _, execution := range []string{"exe_b", "exe_c"} {
		before := l.Number()
		if err := l.Greet(ctx, Sync{Execution: execution, Epoch: 3, Adopt: true}); err != nil {
			t.Fatal(err)
		}
		if e, n := g.Identity(); e != execution || n != 3 || l.Number() <= before {
			t.Errorf("the guest is %s, epoch %d, on link %d after %d", e, n, l.Number(), before)
		}
		s, err := l.Open(ctx, []byte(execution))
		if err != nil {
			t.Fatal(err)
		}
		if msg, err := s.Recv(ctx); string(msg) != execution || err != nil {
			t.Errorf("got %q, %v", msg, err)
		}
	}
	if err := <-ended; !errors.Is(err, ErrReplaced) {
		t.Errorf("the guest's old stream ended with %v, want %v", err, ErrReplaced)
	}
	if _, err := old.Recv(ctx); !errors.Is(err, ErrReplaced) {
		t.Errorf("the host's old stream ended with %v, want %v", err, ErrReplaced)
	}
}

// TestGreetedAgainInVain: whoever isn't answered as it should be has no link any more.
func TestGreetedAgainInVain(t *testing.T) {
	for name, s := range map[string]Sync{"refused": {Execution: "exe_b", Epoch: 1}, "no execution": {Epoch: 1}} {
		p := newPort()
		serveGuest(t, p, quiet, echo)
		l := connect(t, p, first)
		if err := l.Greet(testContext(t), s); err == nil {
			t.Errorf("%s: no error", name)
		}
		if name == "refused" && l.Err() == nil {
			t.Errorf("%s: the link is up", name)
		}
	}
}

// TestEagerGuestIsCutOff: a frame under a new number before its ACK is nobody's to send, the second time as the first.
func TestEagerGuestIsCutOff(t *testing.T) {
	host, guest := socketPair(t)
	go func() {
		frames := newFrameReader(guest)
		for n := 0; ; {
			f, err := frames.next()
			if err != nil {
				return
			}
			if f.kind != kindSync {
				continue
			}
			if n++; n == 2 {
				guest.Write(appendFrame(nil, frame{kind: kindData, stream: 1, link: f.link, payload: []byte("x")}))
			}
			guest.Write(appendFrame(nil, frame{kind: kindAck, link: f.link, payload: ack{Version, 1}.encode()}))
		}
	}()
	l, err := Host(testContext(t), host, Sync{Execution: "exe_a", Epoch: 1, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	var broken *ProtocolError
	if err := l.Greet(testContext(t), Sync{Execution: "exe_b", Epoch: 1, Adopt: true}); !errors.As(err, &broken) {
		t.Errorf("got %v", err)
	}
	l.Close()
}
