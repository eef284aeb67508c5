package edge

import (
	"context"
	"errors"
	"io"
	"time"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// Limits of what a WebSocket brings to its session.
const (
	inputQueue = 16               // messages of standard input that wait; then the client isn't read from
	tellTime   = 10 * time.Second // for a signal or a size to arrive
)

// input brings what a WebSocket's client sends to the session. Standard input has an order of its own and may wait for the session; signals and
// sizes overtake it.
type input struct {
	socket  *socket
	target  *target
	session string
	queue   chan frame // standard input and its end
}

func newInput(e *Edge, s *socket, route *routev1.Route, session string) *input {
	stale := func(context.Context) (*target, error) {
		return nil, space.Errorf(space.CodeRouteStale, "the connection belongs to another incarnation; attach again")
	}
	return &input{socket: s, session: session, queue: make(chan frame, inputQueue), target: &target{edge: e, route: route, resolve: stale}}
}

// take does what a message says, or puts it in line.
func (in *input) take(ctx context.Context, f frame) error {
	switch {
	case f.signal != 0:
		return in.tell(ctx, signalAction(in.session, f.signal))
	case f.rows != 0:
		return in.tell(ctx, resizeAction(in.session, f.rows, f.cols))
	}
	select {
	case in.queue <- f:
		return nil
	default:
	}
	in.socket.paused.Store(true)
	defer in.socket.paused.Store(false)
	select {
	case in.queue <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (in *input) tell(ctx context.Context, a *sandboxv1.Action) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	_, err := in.target.do(ctx, a)
	return err
}

// line is an open call that appends to the session's input. Its answer is awaited beside, so that a refusal is heard when it comes. The zero
// line is none.
type line struct {
	*call
	answers <-chan heard
}

// send says how much standard input the session has, and then brings what comes, until its context ends.
func (in *input) send(ctx context.Context) {
	if n, err := in.bring(ctx, false); err == nil {
		in.socket.tell(event{name: "stdin", data: map[string]any{"received": n}})
	}
	var l line
	defer func() { l.drop() }()
	for {
		var err error
		select {
		case f := <-in.queue:
			l, err = in.next(ctx, l, f)
		case h := <-l.answers:
			err = h.err
			l.drop()
			l = line{}
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			in.socket.problem(err)
		}
	}
}

// next brings one message on a line that stays open, or ends the input.
func (in *input) next(ctx context.Context, l line, f frame) (line, error) {
	if !f.closeStdin {
		if l.call == nil {
			l = in.open(ctx, false)
		}
		l.call.send(f.stdin, false) // if the call is over, its answer says why
		return l, nil
	}
	if l.call != nil {
		if _, err := l.finish(); err != nil {
			return line{}, err
		}
	}
	_, err := in.bring(ctx, true)
	return line{}, err
}

// bring makes a call without bytes, which may end the input, and returns how much the session has.
func (in *input) bring(ctx context.Context, last bool) (received uint64, err error) {
	l := in.open(ctx, last)
	return l.finish()
}

// open begins a call that appends to the session's input, for as long as that takes.
func (in *input) open(ctx context.Context, last bool) line {
	c := in.target.start(ctx, &sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: in.session, Append: true, Close: last}}})
	c.patience = 0
	return line{c, c.listen()}
}

// finish ends a line when all that was sent has arrived, and returns how much the session has.
func (l line) finish() (received uint64, err error) {
	defer l.drop()
	l.call.send(nil, true)
	l.stream.CloseRequest()
	h, there := <-l.answers
	switch {
	case !there:
		return 0, l.reason(context.Cause(l.ctx))
	case errors.Is(h.err, io.EOF):
		return 0, space.Errorf(space.CodeInternal, "the sandbox didn't answer")
	}
	return h.m.GetReceived(), h.err
}

// drop ends a line as it is, and returns when nobody waits for its answer any more.
func (l line) drop() {
	if l.call == nil {
		return
	}
	l.call.close()
	for range l.answers {
	}
}
