package link

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGuestHasTheIdentityBeforeItAnswers(t *testing.T) {
	p := newPort()
	var got Sync
	g := serveGuest(t, p, Hooks{Sync: func(s Sync) error { got = s; return nil }, Clock: setClock}, echo)
	want := Sync{Execution: "exe_abc", Epoch: 7, Adopt: true, Hostname: "sbx-abc"}
	before := time.Now()
	l := connect(t, p, want)
	if got.Time.Before(before) || got.Time.After(time.Now()) {
		t.Errorf("the guest was told %s", got.Time)
	}
	if got.Seed == [SeedBytes]byte{} {
		t.Error("the guest got no seed")
	}
	want.Link, want.Time, want.Seed = l.Number(), got.Time, got.Seed
	if got != want {
		t.Errorf("the guest got %+v, want %+v", got, want)
	}
	if e, n := g.Identity(); e != "exe_abc" || n != 7 {
		t.Errorf("the guest is %s, epoch %d", e, n)
	}
	if l.RoundTrip() <= 0 {
		t.Errorf("round trip %s", l.RoundTrip())
	}
}

func TestClockIsSetAgainAfterTheAnswer(t *testing.T) {
	p := newPort()
	clocks := make(chan time.Time, 10)
	serveGuest(t, p, Hooks{Sync: accept, Clock: func(t time.Time) error { clocks <- t; return nil }}, echo)
	l := connect(t, p, first)
	<-clocks
	want := time.Unix(1e9, 5)
	if err := l.SetClock(want); err != nil {
		t.Fatal(err)
	}
	if got := <-clocks; !got.Equal(want) {
		t.Errorf("the guest was told %s, want %s", got, want)
	}
}

func TestIdentityChangesOnlyWhenAdopted(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	steps := []struct {
		name string
		sync Sync
		want Refusal
	}{
		{"a fresh guest has nothing to re-attach to", Sync{Execution: "a", Epoch: 1}, RefusedIdentity},
		{"adopt", Sync{Execution: "a", Epoch: 3, Adopt: true}, 0},
		{"re-attach", Sync{Execution: "a", Epoch: 3}, 0},
		{"another epoch", Sync{Execution: "a", Epoch: 4}, RefusedIdentity},
		{"another execution", Sync{Execution: "b", Epoch: 3}, RefusedIdentity},
		{"an older epoch, adopted", Sync{Execution: "a", Epoch: 2, Adopt: true}, RefusedIdentity},
		{"still there", Sync{Execution: "a", Epoch: 3}, 0},
		{"a fork", Sync{Execution: "b", Epoch: 1, Adopt: true}, 0},
		{"the fork's parent", Sync{Execution: "a", Epoch: 3}, RefusedIdentity},
	}
	for _, s := range steps {
		l, err := Host(testContext(t), p.dial(t), s.sync)
		var refused *RefusedError
		if errors.As(err, &refused) {
			if refused.Reason != s.want {
				t.Errorf("%s: refused because %s, want %s", s.name, refused.Reason, s.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if s.want != 0 {
			t.Errorf("%s: not refused", s.name)
		}
		l.Close()
	}
}

func TestHostGoesOnFromTheGuestsNumber(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	ahead := first
	ahead.Link = uint64(time.Now().Add(time.Hour).UnixNano()) // a host whose clock was wrong
	l := connect(t, p, ahead)
	l.Close()
	l = connect(t, p, first)
	if l.Number() != ahead.Link+1 {
		t.Errorf("number %d, want %d", l.Number(), ahead.Link+1)
	}
}

func TestGuestThatCanNotTakeTheTimeRefuses(t *testing.T) {
	p := newPort()
	var works atomic.Bool
	g := serveGuest(t, p, Hooks{Clock: setClock, Sync: func(Sync) error {
		if works.Load() {
			return nil
		}
		return errors.New("no clock")
	}}, echo)
	_, err := Host(testContext(t), p.dial(t), first)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != RefusedSync {
		t.Errorf("%v, want it refused", err)
	}
	if _, epoch := g.Identity(); epoch != 0 {
		t.Errorf("the guest took epoch %d", epoch)
	}
	works.Store(true)
	connect(t, p, first)
}

// TestNewLinkEndsTheOld is what a daemon that comes back sees: calls of the link before end with a typed error, the new one works.
// TestFramesOfAnEarlierLinkReachNobody: what a dead daemon had under way when the next one came is nobody's.
func TestFramesOfAnEarlierLinkReachNobody(t *testing.T) {
	p := newPort()
	got := make(chan string, 2)
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) {
		msg, _ := s.Recv(ctx)
		got <- string(msg)
		s.CloseSend()
	})
	l := connect(t, p, first)
	l.conn.Close()
	<-l.Done()
	second := connect(t, p, Sync{Execution: "exe_a", Epoch: 1})
	for _, link := range []uint64{l.Number(), 0, second.Number() + 1} {
		for _, kind := range []kind{kindOpen, kindData, kindClose, kindReset, kindClock} {
			if _, err := second.conn.(net.Conn).Write(appendFrame(nil, frame{kind: kind, stream: 1, link: link, payload: []byte("stale")})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := second.Open(testContext(t), []byte("fresh")); err != nil {
		t.Fatal(err)
	}
	if msg := <-got; msg != "fresh" {
		t.Errorf("the guest was handed %q first, want what the newest link sent", msg)
	}
}

func TestNewLinkEndsTheOld(t *testing.T) {
	p := newPort()
	ended := make(chan error, 1)
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) {
		msg, _ := s.Recv(ctx)
		if string(msg) == "wait" {
			_, err := s.Recv(ctx)
			ended <- err
			return
		}
		s.Send(ctx, msg)
		s.CloseSend()
	})
	l := connect(t, p, first)
	ctx := testContext(t)
	if _, err := l.Open(ctx, []byte("wait")); err != nil {
		t.Fatal(err)
	}
	s, err := l.Open(ctx, []byte("and be sure that it arrived"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	l.conn.Close() // the daemon dies
	<-l.Done()
	second := connect(t, p, Sync{Execution: "exe_a", Epoch: 1})
	if err := <-ended; !errors.Is(err, ErrReplaced) {
		t.Errorf("the old stream ended with %v, want %v", err, ErrReplaced)
	}
	if second.Number() <= l.Number() {
		t.Errorf("number %d after %d", second.Number(), l.Number())
	}
	s, err = second.Open(ctx, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if msg, err := s.Recv(ctx); string(msg) != "hello" || err != nil {
		t.Errorf("got %q, %v", msg, err)
	}
}

// TestDaemonDiesInMidFrame cuts a large message at every kind of place. Whatever the guest has of it must not swallow the next SYNC.
func TestDaemonDiesInMidFrame(t *testing.T) {
	for _, cut := range []int{1, headerLen - 1, headerLen, headerLen + 1, 1000, MaxFrame - 1} {
		p := newPort()
		serveGuest(t, p, quiet, echo)
		l := connect(t, p, first)
		f := appendFrame(nil, frame{kind: kindOpen, stream: 1, link: l.Number(), payload: make([]byte, MaxPayload)})
		l.conn.(net.Conn).Write(f[:cut])
		l.conn.Close()
		begin := time.Now()
		connect(t, p, Sync{Execution: "exe_a", Epoch: 1}).Close()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("cut after %d bytes: the next link took %s", cut, took)
		}
		// The same with a host that doesn't expect it, because it has loaded a snapshot.
		l = connect(t, p, first)
		f = appendFrame(nil, frame{kind: kindOpen, stream: 1, link: l.Number(), payload: make([]byte, MaxPayload)})
		l.conn.(net.Conn).Write(f[:cut])
		l.conn.Close()
		connect(t, p, Sync{Execution: "exe_b", Epoch: 1, Adopt: true})
	}
}

func TestNobodyAnswers(t *testing.T) {
	host, guest := socketPair(t)
	go io.Copy(io.Discard, guest)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := Host(ctx, host, first); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v and the deadline", err, ErrNoAnswer)
	}
}

func TestGuestThatReadsNothing(t *testing.T) {
	host, _ := socketPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := Host(ctx, host, first); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v, want %v", err, ErrNoAnswer)
	}
}

func TestWrongSyncIsRefusedBeforeAnythingIsSent(t *testing.T) {
	long := make([]byte, 100)
	for _, s := range []Sync{{Epoch: 1}, {Execution: "a"}, {Execution: string(long), Epoch: 1}, {Execution: "a", Epoch: 1, Hostname: string(long)}} {
		host, _ := socketPair(t)
		if _, err := Host(testContext(t), host, s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

// TestTwoClonesOfOneSnapshot: both guests wake up with the same link and get different seeds.
func TestTwoClonesOfOneSnapshot(t *testing.T) {
	var mu sync.Mutex
	seeds := map[[SeedBytes]byte]bool{}
	for range 2 {
		p := newPort()
		serveGuest(t, p, Hooks{Clock: setClock, Sync: func(s Sync) error {
			mu.Lock()
			defer mu.Unlock()
			seeds[s.Seed] = true
			return nil
		}}, echo)
		connect(t, p, first)
	}
	if len(seeds) != 2 {
		t.Errorf("%d different seeds, want 2", len(seeds))
	}
}
