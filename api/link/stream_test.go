package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestFloodHoldsUpNobody: a stream that nobody reads is full, and every other one works.
func TestFloodHoldsUpNobody(t *testing.T) {
	p := newPort()
	flooding := make(chan struct{})
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) {
		if msg, _ := s.Recv(ctx); string(msg) != "flood" {
			s.Send(ctx, msg)
			s.CloseSend()
			return
		}
		for n := 0; s.Send(ctx, make([]byte, 1000)) == nil; n++ {
			if n == Window/2000 {
				close(flooding)
			}
		}
	})
	l := connect(t, p, first)
	ctx := testContext(t)
	flood, err := l.Open(ctx, []byte("flood"))
	if err != nil {
		t.Fatal(err)
	}
	<-flooding
	for i := range 100 {
		s, err := l.Open(ctx, fmt.Append(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		if msg, err := s.Recv(ctx); string(msg) != fmt.Sprint(i) {
			t.Fatalf("call %d: %q, %v", i, msg, err)
		}
		s.CloseSend()
	}
	for range 3 * Window / 1000 { // the flood goes on when it's read
		if _, err := flood.Recv(ctx); err != nil {
			t.Fatal(err)
		}
	}
	flood.Reset(CodeCancelled)
	s, err := l.Open(ctx, []byte("after the flood"))
	if err != nil {
		t.Fatal(err)
	}
	if msg, err := s.Recv(ctx); string(msg) != "after the flood" {
		t.Errorf("%q, %v", msg, err)
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	l := connect(t, p, first)
	ctx := testContext(t)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for round := range 5 {
				msg := bytes.Repeat([]byte{byte(i)}, i*997+round)
				s, err := l.Open(ctx, msg)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.CloseSend(); err != nil {
					t.Error(err)
				}
				if got, err := s.Recv(ctx); !bytes.Equal(got, msg) {
					t.Errorf("%d bytes came back, want %d: %v", len(got), len(msg), err)
				}
				if _, err := s.Recv(ctx); err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
			}
		})
	}
	all.Wait()
	m := l.cur.Load()
	for left := 1; left > 0 && ctx.Err() == nil; runtime.Gosched() { // the last ones are removed just after their end was read
		m.mu.Lock()
		left = len(m.streams)
		m.mu.Unlock()
	}
	if ctx.Err() != nil {
		t.Error("streams that have ended are still there")
	}
}

func TestStreamsAreBounded(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	l := connect(t, p, first)
	ctx := testContext(t)
	for range MaxStreams {
		if _, err := l.Open(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Open(ctx, nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v, want %v", err, ErrTooMany)
	}
}

func TestCancelledRecvLosesNothing(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	l := connect(t, p, first)
	ctx := testContext(t)
	s, err := l.Open(ctx, []byte("0"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if i > 0 {
			if err := s.Send(ctx, fmt.Append(bytes.Repeat([]byte("."), 50_000), i)); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithCancel(ctx)
		go cancel()
		msg, err := s.Recv(short)
		if errors.Is(err, context.Canceled) {
			msg, err = s.Recv(ctx)
		}
		if err != nil || !bytes.HasSuffix(msg, fmt.Append(nil, i)) {
			t.Fatalf("message %d: %d bytes, %v", i, len(msg), err)
		}
		cancel()
	}
}

func TestCancelledSendInTheMiddleEndsTheStream(t *testing.T) {
	p := newPort()
	ended := make(chan error, 1)
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) {
		<-s.Done()
		_, err := s.Recv(ctx)
		ended <- err
	})
	l := connect(t, p, first)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	s, err := l.Open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(ctx, make([]byte, MaxMessage)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
	var reset *ResetError
	if err := <-ended; !errors.As(err, &reset) || !reset.Remote || reset.Code != CodeCancelled {
		t.Errorf("the guest saw %v", err)
	}
	if err := s.Send(testContext(t), nil); !errors.As(err, &reset) || reset.Remote {
		t.Errorf("send afterwards: %v", err)
	}
}

func TestResetByTheGuest(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) { s.Reset(42) })
	l := connect(t, p, first)
	s, err := l.Open(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var reset *ResetError
	if _, err := s.Recv(testContext(t)); !errors.As(err, &reset) || !reset.Remote || reset.Code != 42 {
		t.Errorf("%v, want code 42", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, func(ctx context.Context, s *Stream) { <-s.Done() })
	l := connect(t, p, first)
	s, err := l.Open(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	<-l.Done()
	if _, err := s.Recv(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("recv: %v", err)
	}
	if err := s.Send(testContext(t), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("send: %v", err)
	}
	if _, err := l.Open(testContext(t), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	if err := l.SetClock(time.Now()); !errors.Is(err, ErrClosed) {
		t.Errorf("clock: %v", err)
	}
}

func TestSendAfterCloseSend(t *testing.T) {
	p := newPort()
	serveGuest(t, p, quiet, echo)
	s, err := connect(t, p, first).Open(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if err := s.CloseSend(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := s.Send(testContext(t), nil); !errors.Is(err, ErrSendClosed) {
		t.Errorf("%v, want %v", err, ErrSendClosed)
	}
}

// BenchmarkStdout is the way of a process's output: messages of 32 KiB from the guest.
func BenchmarkStdout(b *testing.B) {
	p := newPort()
	msg := make([]byte, MaxPayload-200)
	serveGuest(b, p, quiet, func(ctx context.Context, s *Stream) {
		for s.Send(ctx, msg) == nil {
		}
	})
	l := connect(b, p, first)
	s, err := l.Open(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Recv(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is a call with one short answer.
func BenchmarkCall(b *testing.B) {
	p := newPort()
	serveGuest(b, p, quiet, echo)
	l := connect(b, p, first)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		s, err := l.Open(ctx, []byte("hello"))
		if err != nil {
			b.Fatal(err)
		}
		s.Recv(ctx)
		s.CloseSend()
		s.Recv(ctx)
	}
}
