package relay

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/peer"
)

// MaxCallBytes bounds a message of a Call or a Put towards the machine: 32 KiB of an upload, or an action with its paths.
const MaxCallBytes = 64 << 10

// MaxResultBytes bounds a message of a Call from the machine: entries of a directory, as many as a message of the guest's link takes, or the
// live sessions with their arguments.
const MaxResultBytes = 4 << 20

// Caller is the next process on the way to the machine.
type Caller interface {
	Call(context.Context) *connect.BidiStreamForClient[sandboxv1.CallRequest, sandboxv1.CallResponse]
}

// CallStream is the caller's side of a Call, whose first message was received.
type CallStream interface {
	Receive() (*sandboxv1.CallRequest, error)
	Send(*sandboxv1.CallResponse) error
}

// Call opens a call on next with the caller's first message and passes on what follows, in both directions. One message is held in each; who
// sends faster than the other side takes waits. It returns when the answers have ended, which is the call's success, or with an error for
// the wire: the next process's own, or what ended ctx.
func Call(ctx context.Context, next Caller, first *sandboxv1.CallRequest, caller CallStream) error {
	below, cancel := context.WithCancel(ctx)
	stream := next.Call(below)
	defer func() {
		cancel() // or closing would wait for what is still to come
		stream.CloseResponse()
	}()
	// The feeder ends with the call below, or, if it waits for its caller, when the handler has returned, which closes the caller's stream.
	go func() {
		if feed(caller, stream, first) != nil {
			cancel()
		}
	}()
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(ctx, err)
		}
		if err := caller.Send(m); err != nil {
			return peer.ToConnect(space.Errorf(space.CodeUnavailable, "send an answer: %w", err))
		}
	}
}

// feed passes the caller's messages on until it has no more. An error means that the caller's stream broke.
func feed(caller CallStream, stream *connect.BidiStreamForClient[sandboxv1.CallRequest, sandboxv1.CallResponse], m *sandboxv1.CallRequest) error {
	for {
		if err := stream.Send(m); err != nil {
			return nil // the call is over, and its answers say why
		}
		next, err := caller.Receive()
		if errors.Is(err, io.EOF) {
			stream.CloseRequest()
			return nil
		}
		if err != nil {
			return err
		}
		m = next
	}
}

// broken is the error of a call that ended with err, for the wire. What ended ctx comes first: the call below was cancelled because of it.
func broken(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return peer.ToConnect(peer.FromConnect(err))
	}
	var e *space.Error
	if errors.As(context.Cause(ctx), &e) {
		return peer.ToConnect(e)
	}
	return peer.ToConnect(space.Errorf(space.CodeUnavailable, "a process on the way stops, or the caller has left; try again"))
}
