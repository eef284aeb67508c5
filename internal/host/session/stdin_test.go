package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// pieces returns a function that hands out data in pieces.
func pieces(data []byte, n int) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(data) == 0 {
			return nil, io.EOF
		}
		p := data[:min(n, len(data))]
		data = data[len(p):]
		return p, nil
	}
}

// openStdin starts a session with an open stdin.
func openStdin(t *testing.T, set *Set, id string) *watcher {
	t.Helper()
	return follow(t, set, id, &sessionv1.Spec{Argv: []string{"cat"}, Stdin: []byte("input"), OpenStdin: true}, 0, false)
}

// drink takes all stdin as it comes, until ctx ends.
func (p *process) drink(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		all, changed := uint64(len(p.stdin)), p.changed
		if p.taken < all {
			p.mu.Unlock()
			p.change(func() { p.taken = all })
			continue
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// input is a copy of the stdin that the guest has.
func (p *process) input() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.stdin)
}

func TestOpenStdinIsExact(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	w := openStdin(t, set, id)
	want := text(3 << 20)
	go p.drink(t.Context())
	p.await(t, "the start", func() bool { return p.starts > 0 })
	got, err := set.Stdin(t.Context(), Input{Session: id, Offset: 5, Close: true}, pieces(want, 30_000))
	if err != nil || got != uint64(5+len(want)) {
		t.Fatalf("received %d, %v", got, err)
	}
	p.await(t, "the end", func() bool { return p.stdinEnd })
	if got := p.input(); !bytes.Equal(got, append([]byte("input"), want...)) {
		t.Errorf("the command got %d bytes, want %d", len(got), len(want)+5)
	}
	if _, err := set.Stdin(t.Context(), Input{Session: id, Offset: got}, pieces([]byte("more"), 4)); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("after the end: %v", err)
	}
	if again, err := set.Stdin(t.Context(), Input{Session: id, Offset: got - 4, Close: true}, pieces(want[len(want)-4:], 4)); err != nil || again != got {
		t.Errorf("the end again: %d, %v", again, err)
	}
	p.end(0)
	w.last(t)
	if _, err := set.Stdin(t.Context(), Input{Session: id, Offset: got}, pieces(nil, 1)); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("of an ended session: %v", err)
	}
}

func TestStdinGoesOnWithTheNextDaemon(t *testing.T) {
	dir, g := t.TempDir(), newFakeGuest(t)
	set := openSet(t, dir, Limits{})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	w := openStdin(t, set, id)
	want := text(1 << 20)
	cut := errors.New("the client is gone")
	broken := pieces(want[:200_000], 30_000)
	_, err := set.Stdin(t.Context(), Input{Session: id, Offset: 5}, func() ([]byte, error) {
		b, err := broken()
		if err == io.EOF {
			err = cut
		}
		return b, err
	})
	if !errors.Is(err, cut) {
		t.Fatal(err)
	}
	p.await(t, "some of it", func() bool { return len(p.stdin) > 1000 }) // which is known, and brought once more
	w.cancel()
	<-w.done
	set.Close()
	go p.drink(t.Context())
	set = openSet(t, dir, Limits{})
	set.Use(g.connect())
	have, err := set.Stdin(t.Context(), Input{Session: id, Append: true}, pieces(nil, 1))
	if err != nil || have < 5 || have > 200_005 {
		t.Fatalf("it has %d, %v", have, err)
	}
	from := max(have, 505) - 500 // some of it again
	if _, err := set.Stdin(t.Context(), Input{Session: id, Offset: from, Close: true}, pieces(want[from-5:], 30_000)); err != nil {
		t.Fatal(err)
	}
	set.Close()
	set = openSet(t, dir, Limits{})
	set.Use(g.connect())
	if got, err := set.Stdin(t.Context(), Input{Session: id, Offset: uint64(5 + len(want)), Close: true}, pieces(nil, 1)); err != nil || got != uint64(5+len(want)) {
		t.Errorf("closed before the restart: %d, %v", got, err)
	}
	p.await(t, "the end", func() bool { return p.stdinEnd })
	if got := p.input()[5:]; !bytes.Equal(got, want) {
		t.Errorf("the command got %d bytes, want %d", len(got), len(want))
	}
}

func TestStdinIsRefused(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	open, closed := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	openStdin(t, set, open)
	attach(t, set, closed, 0, false)
	g.proc(open).await(t, "the start", func() bool { return g.proc(open).starts > 0 })
	g.proc(closed).await(t, "the start", func() bool { return g.proc(closed).starts > 0 })
	for name, c := range map[string]struct {
		in   Input
		want space.Code
	}{
		"beyond":  {Input{Session: open, Offset: 6}, space.CodeInvalid},
		"unknown": {Input{Session: space.NewID(space.PrefixSession)}, space.CodeNotFound},
		"closed":  {Input{Session: closed, Offset: 5}, space.CodeConflict},
		"tail":    {Input{Session: closed, Append: true}, space.CodeConflict},
	} {
		if _, err := set.Stdin(t.Context(), c.in, pieces([]byte("x"), 1)); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestStdinOfACommandThatEndsIsNoError(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p := g.proc(id)
	openStdin(t, set, id)
	p.await(t, "the start", func() bool { return p.starts > 0 })
	brought := make(chan error, 1)
	go func() {
		_, err := set.Stdin(t.Context(), Input{Session: id, Append: true}, pieces(text(1<<20), 30_000))
		brought <- err
	}()
	p.await(t, "a full window", func() bool { return len(p.stdin) == guestWindow })
	p.end(0)
	if err := <-brought; err != nil {
		t.Error(err)
	}
}

func TestSignalsAndSizesReachTheGuest(t *testing.T) {
	g, set := newFakeGuest(t), openSet(t, t.TempDir(), Limits{})
	set.Use(g.connect())
	id, plain := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	p := g.proc(id)
	w := follow(t, set, id, &sessionv1.Spec{Argv: []string{"sh"}, Tty: &sessionv1.Terminal{Rows: 24, Cols: 80}}, 0, false)
	attach(t, set, plain, 0, false)
	p.await(t, "the start", func() bool { return p.starts > 0 })
	g.proc(plain).await(t, "the start", func() bool { return g.proc(plain).starts > 0 })
	if err := set.Signal(t.Context(), id, 15); err != nil {
		t.Fatal(err)
	}
	if err := set.Resize(t.Context(), id, &sessionv1.Terminal{Rows: 50, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	p.await(t, "both", func() bool { return len(p.signals) == 1 && p.signals[0] == 15 && p.size.GetRows() == 50 })
	for name, c := range map[string]struct {
		err  error
		want space.Code
	}{
		"no such signal":  {set.Signal(t.Context(), id, 65), space.CodeInvalid},
		"no size":         {set.Resize(t.Context(), id, &sessionv1.Terminal{Rows: 1001, Cols: 1}), space.CodeInvalid},
		"no terminal":     {set.Resize(t.Context(), plain, &sessionv1.Terminal{Rows: 1, Cols: 1}), space.CodeConflict},
		"unknown session": {set.Signal(t.Context(), space.NewID(space.PrefixSession), 1), space.CodeNotFound},
	} {
		if space.CodeOf(c.err) != c.want {
			t.Errorf("%s: %v, want %s", name, c.err, c.want)
		}
	}
	p.end(3)
	w.last(t)
	if err := set.Signal(t.Context(), id, 9); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("an ended session: %v", err)
	}
	set.End(space.Errorf(space.CodeExecutionLost, "gone"))
	if err := set.Signal(t.Context(), plain, 9); space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("a lost session: %v", err)
	}
}

func TestListTellsWhatEachSessionDoes(t *testing.T) {
	dir, g := t.TempDir(), newFakeGuest(t)
	set := openSet(t, dir, Limits{})
	set.Use(g.connect())
	ended, runs := space.NewID(space.PrefixSession), space.NewID(space.PrefixSession)
	g.proc(ended).print([]byte("hello"))
	g.proc(ended).end(7)
	attach(t, set, ended, 0, false).last(t)
	long := string(text(3 * maxListedBytes))
	w := follow(t, set, runs, &sessionv1.Spec{Argv: []string{"sleep", long, "x"}, Cwd: "/tmp", User: "me"}, 0, false)
	g.proc(runs).print([]byte("abc"))
	w.awaitData(t, 3)
	check := func() {
		t.Helper()
		byID := map[string]Info{}
		for _, i := range set.List() {
			byID[i.Session] = i
		}
		if i := byID[ended]; i.PID != 0 || i.Exit.GetCode() != 7 || i.Output != 5 || i.Argv[0] != "true" || i.Started.IsZero() {
			t.Errorf("the ended one is %+v", i)
		}
		if i := byID[runs]; i.Exit != nil || i.Lost != nil || i.Cwd != "/tmp" || i.User != "me" || len(i.Argv) != 2 || len(i.Argv[1]) > maxListedBytes {
			t.Errorf("the running one is %+v", i)
		}
	}
	check()
	if i := set.List()[0]; len(set.List()) != 2 || i.Session == runs && i.PID != 42 {
		t.Errorf("listed %+v", set.List())
	}
	w.cancel()
	set.Close()
	set = openSet(t, dir, Limits{})
	check()
}

// TestBytesAfterTheEnd: who brings bytes may hear of the session's end from the input before anybody else says so.
func TestBytesAfterTheEnd(t *testing.T) {
	i := newInput(nil, true, false)
	if err := i.opened(0); err != nil {
		t.Fatal(err)
	}
	i.discard()
	if _, err := i.append(t.Context(), []byte("x")); !errors.Is(err, errSessionEnded) {
		t.Errorf("append: %v", err)
	}
	if _, err := i.add(t.Context(), 0, []byte("x")); !errors.Is(err, errSessionEnded) {
		t.Errorf("add: %v", err)
	}
}
