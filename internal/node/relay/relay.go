// Package relay passes streams between the process that is nearer to the machine and the one that is nearer to the client.
//
// node-api and sbx-manager both stand in the middle of an Attach, a Call and a Put. Neither reads what flows, keeps any of it or connects
// again by itself: when the stream below breaks, the one above ends, and the client comes back, to a session's log with its offset.
package relay

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// MaxRequestBytes bounds an AttachRequest: 1 MiB of stdin, 128 KiB each of arguments and environment, and the rest.
const MaxRequestBytes = 2 << 20

// MaxEventBytes bounds one event of a session's log: 32 KiB of output and its frame.
const MaxEventBytes = 64 << 10

// ReasonShuttingDown is the reason of an Ended event that a stopping process sends.
const ReasonShuttingDown = "shutting_down"

// Attacher is the next process on the way to the machine.
type Attacher interface {
	Attach(context.Context, *connect.Request[sessionv1.AttachRequest]) (*connect.ServerStreamForClient[sessionv1.AttachResponse], error)
}

// Copy attaches to next and sends what comes until the log's last event. The stream ends early, in a typed way, when ctx does: with
// what its cause says if that is a space.Error, else because this process stops or the caller has left, which look the same here. The
// error is one for the wire.
func Copy(ctx context.Context, next Attacher, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := next.Attach(below, connect.NewRequest(req))
	if err != nil {
		return ended(ctx, err, send)
	}
	defer stream.Close()
	for stream.Receive() {
		msg := stream.Msg()
		if err := send(msg); err != nil {
			cancel() // or closing would wait for what is still to come
			return fmt.Errorf("send an event of session %s: %w", req.GetSession(), err)
		}
		if Last(msg) {
			return nil
		}
	}
	return ended(ctx, stream.Err(), send)
}

// Last reports whether nothing follows an event.
func Last(m *sessionv1.AttachResponse) bool {
	switch m.GetEvent().(type) {
	case *sessionv1.AttachResponse_Exit, *sessionv1.AttachResponse_Lost, *sessionv1.AttachResponse_Ended:
		return true
	}
	return false
}

// ended says goodbye when the stream below is over without its last event.
func ended(ctx context.Context, err error, send func(*sessionv1.AttachResponse) error) error {
	if ctx.Err() != nil {
		return goodbye(context.Cause(ctx), send)
	}
	if err == nil {
		return peer.ToConnect(space.Errorf(space.CodeUnavailable, "the session's stream broke off; attach again"))
	}
	return peer.ToConnect(peer.FromConnect(err))
}

func goodbye(cause error, send func(*sessionv1.AttachResponse) error) error {
	var e *space.Error
	switch {
	case !errors.As(cause, &e):
		return send(EndedEvent(ReasonShuttingDown))
	case e.Code == space.CodeExecutionLost || e.Code == space.CodeSessionLost:
		return send(LostEvent(e))
	default:
		return peer.ToConnect(e)
	}
}

// EndedEvent says that the connection ends while the session goes on.
func EndedEvent(reason string) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Ended{Ended: &sessionv1.Ended{Reason: reason}}}
}

// LostEvent says that the session's execution is gone.
func LostEvent(err error) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Lost{Lost: &sessionv1.Lost{Error: peer.ErrorMessage(err)}}}
}
