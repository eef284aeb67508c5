package edge

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// upstream is an open internal stream, received by a goroutine of its own, and how far its client has got.
type upstream struct {
	cursor cursor
	route  *routev1.Route                 // of the execution that it belongs to
	held   *event                         // the first event for the client, if it came before the answer
	events chan *sessionv1.AttachResponse // closed when the stream is over
	err    error                          // why; set before events is closed
	cancel context.CancelFunc
	leave  func() // gives the session's slot back
}

// open resolves a request and attaches. A route that has become stale in between is resolved once more; that happens before the client has got
// anything, so nothing is connected again behind its back.
func (e *Edge) open(ctx context.Context, req attachRequest) (*upstream, error) {
	up, err := e.openOnce(ctx, req)
	if space.CodeOf(err) == space.CodeRouteStale {
		req.target = nil
		up, err = e.openOnce(ctx, req)
	}
	return up, err
}

func (e *Edge) openOnce(ctx context.Context, req attachRequest) (*upstream, error) {
	target, err := e.resolve(ctx, req)
	if err != nil {
		return nil, err
	}
	leave, err := e.attaches.join(req.session, target.GetProject())
	if err != nil {
		return nil, err
	}
	up := e.dial(ctx, req, target)
	up.leave = leave
	if err := up.first(e.timing.patience(req.cursor)); err != nil {
		up.close()
		return nil, err
	}
	return up, nil
}

// resolve asks the control plane what a token opens, unless that is known, and holds the answer against what the client asked for.
func (e *Edge) resolve(ctx context.Context, req attachRequest) (*controlv1.ResolveAttachmentResponse, error) {
	target := req.target
	if target == nil {
		ctx, cancel := context.WithTimeout(ctx, e.timing.resolve)
		defer cancel()
		resp, err := e.control.ResolveAttachment(ctx, connect.NewRequest(&controlv1.ResolveAttachmentRequest{Token: req.token, Session: req.session, LetSleep: req.sleep}))
		if err != nil {
			return nil, peer.FromConnect(err)
		}
		target = resp.Msg
	}
	if _, err := peer.Route(target.GetRoute()); err != nil {
		return nil, space.Errorf(space.CodeInternal, "the control plane resolved session %s to an invalid route: %w", req.session, err)
	}
	if target.GetSession() != req.session {
		return nil, space.Errorf(space.CodeForbidden, "the attachment token opens another session")
	}
	return target, nil
}

// dial starts a stream. Its errors show when it's received.
func (e *Edge) dial(ctx context.Context, req attachRequest, target *controlv1.ResolveAttachmentResponse) *upstream {
	ctx, cancel := context.WithCancel(ctx)
	u := &upstream{cursor: req.cursor, route: target.GetRoute(), events: make(chan *sessionv1.AttachResponse), cancel: cancel}
	go func() {
		defer close(u.events)
		u.err = u.receive(ctx, e.node, &sessionv1.AttachRequest{
			Route: target.GetRoute(), Session: target.GetSession(), Spec: target.GetSpec(),
			FromOffset: req.cursor.offset, Resume: req.cursor.started,
		})
	}()
	return u
}

// receive hands out events until the stream is over; nil after its last event, else the reason.
func (u *upstream) receive(ctx context.Context, node Attacher, req *sessionv1.AttachRequest) error {
	stream, err := node.Attach(ctx, connect.NewRequest(req))
	if err != nil {
		return peer.FromConnect(err)
	}
	defer stream.Close()
	for stream.Receive() {
		select {
		case u.events <- stream.Msg():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return peer.FromConnect(stream.Err())
}

// first waits for the stream's first event for the client or its refusal, so that a refusal can be answered as a problem. After patience a
// silent stream counts as admitted: it is one whose session says nothing.
func (u *upstream) first(patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-u.events:
			if !ok {
				return u.over()
			}
			ev, send, err := u.cursor.next(m)
			if err != nil {
				return err
			}
			if send {
				u.held = &ev
				return nil
			}
		case <-timer.C:
			return nil
		}
	}
}

// patience is how long a stream's first event may take.
func (t timing) patience(c cursor) time.Duration {
	if c.started {
		return t.first
	}
	return t.start
}

// over is why the stream ended; never nil, because a stream that ends without a last event has broken off.
func (u *upstream) over() error {
	var e *space.Error
	if errors.As(u.err, &e) {
		return u.err
	}
	return space.Errorf(space.CodeUnavailable, "the session's stream broke off; attach again")
}

// close ends the stream and returns when its goroutine has ended.
func (u *upstream) close() {
	u.cancel()
	for range u.events {
	}
	u.leave()
}
