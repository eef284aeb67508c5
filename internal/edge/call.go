package edge

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/peer"
)

// MaxResultBytes bounds one message of a call's answers.
const MaxResultBytes = 4 << 20

// How long the edge waits for a sandbox.
const (
	doTime   = 5 * time.Minute  // for something to be done: a change of a whole tree, a large file to be on disk
	dataTime = 60 * time.Second // for the next bytes of a file, and for some to be taken
)

// Caller is the node's door for calls on sandboxes.
type Caller interface {
	Call(context.Context) *connect.BidiStreamForClient[sandboxv1.CallRequest, sandboxv1.CallResponse]
}

// call is an open call on a sandbox. It must be closed.
type call struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	leave    func()        // nil, or gives back what was entered for this call alone
	patience time.Duration // for a part of an upload to be taken; 0: as long as it takes
	stream   *connect.BidiStreamForClient[sandboxv1.CallRequest, sandboxv1.CallResponse]
}

// start opens a call whose upload follows. The target's user acts.
func (t *target) start(ctx context.Context, a *sandboxv1.Action) *call {
	a.User = t.user
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{ctx: ctx, cancel: cancel, patience: dataTime, stream: t.edge.sandboxes.Call(ctx)}
	c.stream.Send(&sandboxv1.CallRequest{Route: t.route, Action: a}) // what went wrong shows when the answer is awaited
	return c
}

// open opens a call without an upload and waits for its first answer, nil if it succeeds without one. A route that has become stale since it was
// resolved is resolved once more.
func (t *target) open(ctx context.Context, a *sandboxv1.Action) (*call, *sandboxv1.CallResponse, error) {
	c, first, err := t.openOnce(ctx, a)
	if space.CodeOf(err) != space.CodeRouteStale {
		return c, first, err
	}
	again, err := t.resolve(ctx)
	if err != nil {
		return nil, nil, err
	}
	t.route, t.user = again.route, again.user
	return t.openOnce(ctx, a)
}

func (t *target) openOnce(ctx context.Context, a *sandboxv1.Action) (*call, *sandboxv1.CallResponse, error) {
	c := t.start(ctx, a)
	c.stream.CloseRequest()
	first, err := c.next(doTime)
	if errors.Is(err, io.EOF) {
		return c, nil, nil
	}
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return c, first, nil
}

// do makes a call whose answer is at most one message, and returns that.
func (t *target) do(ctx context.Context, a *sandboxv1.Action) (*sandboxv1.CallResponse, error) {
	c, first, err := t.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if first == nil {
		return nil, nil
	}
	return first, c.end()
}

// next waits for an answer. io.EOF is the call's success.
func (c *call) next(patience time.Duration) (*sandboxv1.CallResponse, error) {
	defer c.limit(patience)()
	m, err := c.stream.Receive()
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	}
	return nil, c.reason(err)
}

// end waits for the call's success; more answers would be wrong.
func (c *call) end() error {
	_, err := c.next(doTime)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return space.Errorf(space.CodeInternal, "the sandbox answered more than it was asked for")
	}
	return err
}

// send sends a part of an upload. An error tells that the call is over; its answer says why.
func (c *call) send(data []byte, end bool) error {
	defer c.limit(c.patience)()
	return c.stream.Send(&sandboxv1.CallRequest{Data: data, End: end})
}

// answer waits for the answer to an upload that was sent whole, or refused.
func (c *call) answer() (*sandboxv1.CallResponse, error) {
	c.stream.CloseRequest()
	m, err := c.next(doTime)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = space.Errorf(space.CodeInternal, "the sandbox didn't answer an upload")
		}
		return nil, err
	}
	return m, c.end()
}

// limit ends the call unless what follows is done in time; 0 is no limit.
func (c *call) limit(d time.Duration) (stop func() bool) {
	if d == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(d, func() { c.cancel(space.Errorf(space.CodeTimeout, "the sandbox took longer than %s", d)) }).Stop
}

// reason is why a call failed: what the edge itself ended it for, or else what came from inside.
func (c *call) reason(err error) error {
	var e *space.Error
	if errors.As(context.Cause(c.ctx), &e) {
		return e
	}
	return inside(err)
}

func (c *call) close() {
	c.cancel(nil)
	c.stream.CloseRequest()
	c.stream.CloseResponse()
	if c.leave != nil {
		c.leave()
	}
}

// inside is an error from inside the platform in the client's words.
func inside(err error) error { return forClient(peer.FromConnect(err)) }
