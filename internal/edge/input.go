package edge

import (
	"context"
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

// send says how much standard input the session has, and then brings what comes, until its context ends.
func (in *input) send(ctx context.Context) {
	if m, err := in.bring(ctx, false); err == nil {
		in.socket.tell(event{name: "stdin", data: map[string]any{"received": m.GetReceived()}})
	}
	var c *call // open while there is input, nil before the first and after an end
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for {
		select {
		case f := <-in.queue:
			var err error
			if c, err = in.next(ctx, c, f); err != nil && ctx.Err() == nil {
				in.socket.problem(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// next brings one message in a call that goes on, or ends the input.
func (in *input) next(ctx context.Context, c *call, f frame) (*call, error) {
	if !f.closeStdin {
		if c == nil {
			c = in.open(ctx, false)
		}
		if c.send(f.stdin, false) == nil {
			return c, nil
		}
		_, err := c.answer()
		c.close()
		return nil, err
	}
	if c != nil {
		c.send(nil, true)
		_, err := c.answer()
		c.close()
		if err != nil {
			return nil, err
		}
	}
	_, err := in.bring(ctx, true)
	return nil, err
}

// bring makes a call without bytes, which may end the input, and returns its answer.
func (in *input) bring(ctx context.Context, last bool) (*sandboxv1.CallResponse, error) {
	c := in.open(ctx, last)
	defer c.close()
	c.send(nil, true)
	return c.answer()
}

// open begins a call that appends to the session's input, for as long as that takes.
func (in *input) open(ctx context.Context, last bool) *call {
	c := in.target.start(ctx, &sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: in.session, Append: true, Close: last}}})
	c.patience = 0
	return c
}
