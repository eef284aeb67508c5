package session

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func openSet(t *testing.T, dir string, limits Limits) *Set {
	t.Helper()
	s, err := Open(dir, limits, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// watcher is an attached client that remembers what it got.
type watcher struct {
	mu      sync.Mutex
	events  []*sessionv1.AttachResponse
	data    []byte
	from    uint64
	changed chan struct{}
	err     error
	done    chan struct{}
	cancel  context.CancelFunc
}

func attach(t *testing.T, s *Set, id string, from uint64, resume bool) *watcher {
	t.Helper()
	return follow(t, s, id, &sessionv1.Spec{Argv: []string{"true"}, Stdin: []byte("input")}, from, resume)
}

func follow(t *testing.T, s *Set, id string, spec *sessionv1.Spec, from uint64, resume bool) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{from: from, changed: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(w.done)
		w.err = s.Attach(ctx, Request{Session: id, Spec: spec, From: from, Resume: resume}, w.take)
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *watcher) take(e *sessionv1.AttachResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := e.GetOutput(); o != nil {
		if o.GetOffset() != w.from+uint64(len(w.data)) {
			return fmt.Errorf("output at %d, want %d", o.GetOffset(), w.from+uint64(len(w.data)))
		}
		w.data = append(w.data, o.GetData()...)
	}
	w.events = append(w.events, e)
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

// awaitData waits for so many bytes of output.
func (w *watcher) awaitData(t *testing.T, n int) {
	t.Helper()
	for {
		w.mu.Lock()
		got, changed := len(w.data), w.changed
		w.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-w.done:
			t.Fatalf("the stream ended with %d of %d bytes: %v", got, n, w.err)
		case <-time.After(20 * time.Second):
			t.Fatalf("got %d of %d bytes", got, n)
		}
	}
}

// last waits for the end and returns the last event.
func (w *watcher) last(t *testing.T) *sessionv1.AttachResponse {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the stream doesn't end")
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.events[len(w.events)-1]
}

func text(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()[:n]
}

func TestSessionIsToldFromStartToExit(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	p.print([]byte("hello"))
	w := attach(t, set, id, 0, false)
	p.await(t, "the input", func() bool { return string(p.stdin) == "input" })
	p.end(7)
	exit := w.last(t).GetExit()
	if exit.GetCode() != 7 || exit.GetOffset() != 5 || string(w.data) != "hello" || w.events[0].GetStarted() == nil || len(w.events) != 3 {
		t.Fatalf("got %v", w.events)
	}
	p.await(t, "the guest to be told to forget", func() bool { return p.forgotten })
	again := attach(t, set, id, 2, true)
	if again.last(t).GetExit() == nil || string(again.data) != "llo" || again.events[0].GetOutput() == nil {
		t.Fatalf("a second client got %v", again.events)
	}
}

func TestRestartedDaemonLosesAndRepeatsNothing(t *testing.T) {
	g, dir := newFakeGuest(t), t.TempDir()
	id := space.NewID(space.PrefixSession)
	p, whole := g.proc(id), text(300_000)
	var got []byte
	var set *Set
	for life, n := range []int{1, 50_000, 170_001, len(whole)} {
		set = openSet(t, dir, Limits{})
		set.Use(g.connect())
		p.print(whole[len(p.log):n])
		w := attach(t, set, id, uint64(len(got)), life > 0)
		w.awaitData(t, n-len(got))
		if n < len(whole) {
			w.cancel()
			if w.last(t).GetEnded() == nil {
				t.Fatal("the client wasn't told that the connection ends")
			}
			got = append(got, w.data...)
			set.Close()
			continue
		}
		p.end(0)
		if w.last(t).GetExit() == nil {
			t.Fatal("no exit")
		}
		got = append(got, w.data...)
	}
	if !bytes.Equal(got, whole) {
		t.Fatal("the output differs")
	}
	if p.starts != 1 {
		t.Fatalf("started %d times", p.starts)
	}
}

func TestBrokenLinkIsInvisibleToAClient(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	id := space.NewID(space.PrefixSession)
	p, whole := g.proc(id), text(100_000)
	first := g.connect()
	set.Use(first)
	p.print(whole[:60_000])
	w := attach(t, set, id, 0, false)
	w.awaitData(t, 30_000)
	first.Close()
	p.print(whole[60_000:])
	set.Use(g.connect())
	w.awaitData(t, len(whole))
	p.end(0)
	if w.last(t).GetExit() == nil || !bytes.Equal(w.data, whole) {
		t.Fatal("the output differs")
	}
}

func TestLostExecutionEndsItsSessions(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	ended, running := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	g.proc(ended).end(0)
	attach(t, set, ended, 0, false).last(t)
	g.proc(running).print([]byte("x"))
	w := attach(t, set, running, 0, false)
	w.awaitData(t, 1)
	set.End(space.Errorf(space.CodeExecutionLost, "it's gone"))
	if e := w.last(t).GetLost().GetError(); e.GetCode() != string(space.CodeExecutionLost) {
		t.Fatalf("the client got %v", w.events)
	}
	late := attach(t, set, running, 0, true)
	if late.last(t).GetLost() == nil || string(late.data) != "x" {
		t.Fatalf("a late client got %v", late.events)
	}
	if attach(t, set, ended, 0, false).last(t).GetExit() == nil {
		t.Fatal("the session that had ended has no exit any more")
	}
	fresh := attach(t, set, space.NewID(space.PrefixSession), 0, false)
	<-fresh.done
	if space.CodeOf(fresh.err) != space.CodeExecutionLost {
		t.Fatalf("a new session got %v", fresh.err)
	}
}

func TestSessionThatWasSeenIsNeverStartedAgain(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	w := attach(t, set, space.NewID(space.PrefixSession), 0, true)
	<-w.done
	if space.CodeOf(w.err) != space.CodeInvalid || len(g.procs) != 0 {
		t.Fatalf("got %v, the guest has %d sessions", w.err, len(g.procs))
	}
}

func TestLyingGuestCostsOnlyItsSession(t *testing.T) {
	for name, lie := range map[string]func(*guestv1.FromSession){
		"offset":  func(m *guestv1.FromSession) { m.GetOutput().Offset = 1 << 63 },
		"stream":  func(m *guestv1.FromSession) { m.GetOutput().Stream = 9 },
		"size":    func(m *guestv1.FromSession) { m.GetOutput().Data = make([]byte, 40<<10) },
		"nothing": func(m *guestv1.FromSession) { m.Message = nil },
		"exit":    func(m *guestv1.FromSession) { m.Message = &guestv1.FromSession_Exit{Exit: &sessionv1.Exit{Offset: 99}} },
	} {
		dir := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, set := newFakeGuest(t), openSet(t, dir, Limits{})
				set.Use(g.connect())
				id := space.NewID(space.PrefixSession)
				g.proc(id).print([]byte("x"))
				g.lie = func(m *guestv1.FromSession) {
					if m.GetOutput() != nil {
						lie(m)
					}
				}
				w := attach(t, set, id, 0, false)
				if e := w.last(t).GetLost().GetError(); e.GetCode() != string(space.CodeGuest) {
					t.Fatalf("got %v", w.events)
				}
			})
		})
	}
}

func TestOldestEndedSessionsLoseTheirOutput(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{KeptBytes: 150})
	set.Use(g.connect())
	ids := []string{space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)}
	for _, id := range ids {
		p := g.proc(id)
		p.print(text(100))
		p.end(0)
		attach(t, set, id, 0, false).last(t)
		p.await(t, "the guest to be told to forget", func() bool { return p.forgotten })
	}
	old := attach(t, set, ids[0], 0, false)
	if old.last(t).GetExit() == nil || old.events[1].GetGap().GetTo() != 100 {
		t.Fatalf("the oldest has %v", old.events)
	}
	if young := attach(t, set, ids[1], 0, false); young.last(t).GetExit() == nil || len(young.data) != 100 {
		t.Fatalf("the newest has %v", young.events)
	}
}

func TestClientThatTakesNothingLetsTheProcessGoOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGuest(t)
		set := openSet(t, dir, Limits{RingBytes: 1 << 20})
		set.Use(g.connect())
		id := space.NewID(space.PrefixSession)
		p := g.proc(id)
		p.print(text(3 << 20))
		p.end(0)
		var events []*sessionv1.AttachResponse
		stuck, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- set.Attach(t.Context(), Request{Session: id, Spec: &sessionv1.Spec{}}, func(e *sessionv1.AttachResponse) error {
				if e.GetOutput() != nil {
					<-stuck
				}
				events = append(events, e)
				return nil
			})
		}()
		p.await(t, "the process to go on", func() bool { return p.forgotten })
		close(stuck)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1]; last.GetEnded().GetReason() != reasonSlowClient {
			t.Fatalf("the last event is %v", last)
		}
		set.Close()
	})
}

func FuzzFromSession(f *testing.F) {
	b, _ := proto.Marshal(&guestv1.FromSession{Message: &guestv1.FromSession_Exit{Exit: &sessionv1.Exit{Signal: 9}}})
	f.Add(b, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, end uint64) {
		m := new(guestv1.FromSession)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		if o := m.GetOutput(); o != nil {
			data, _, err := checkOutput(o, end)
			if err == nil && uint64(len(data)) > 0 && o.GetOffset()+uint64(len(o.GetData())) != end+uint64(len(data)) {
				t.Fatalf("%v after %d yields %d bytes", o, end, len(data))
			}
		}
		if e := m.GetExit(); e != nil {
			out, err := checkExit(e, end)
			if err == nil && (out.GetAt().CheckValid() != nil || len(out.GetError()) > maxErrorText || len(out.GetSignalName()) > 20) {
				t.Fatalf("%v passes as %v", e, out)
			}
		}
	})
}
