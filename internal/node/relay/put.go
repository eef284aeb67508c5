package relay

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/peer"
)

// Putter is the next process on the way to where uploads are staged.
type Putter interface {
	Put(context.Context) *connect.ClientStreamForClient[uploadv1.PutRequest, uploadv1.PutResponse]
}

// PutStream is the caller's side of a Put, whose first message was received.
type PutStream interface {
	Receive() bool
	Msg() *uploadv1.PutRequest
	Err() error
}

// Put passes an upload on, one message at a time, and returns its answer. The error is one for the wire.
func Put(ctx context.Context, next Putter, caller PutStream) (*connect.Response[uploadv1.PutResponse], error) {
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := next.Put(below)
	for more := true; more; more = caller.Receive() {
		if stream.Send(caller.Msg()) != nil {
			break // the next process has answered already
		}
	}
	if err := caller.Err(); err != nil {
		cancel()
		stream.CloseAndReceive()
		return nil, peer.ToConnect(space.Errorf(space.CodeUnavailable, "the upload broke off: %w", err))
	}
	resp, err := stream.CloseAndReceive()
	if err != nil {
		return nil, broken(ctx, err)
	}
	return connect.NewResponse(resp.Msg), nil
}

// CheckUpload refuses an upload that isn't described wholly, and one for another node than the named one.
func CheckUpload(u *uploadv1.Upload, node string) error {
	if err := space.CheckID(space.PrefixUpload, u.GetId()); err != nil {
		return space.FieldErrorf("upload.id", "%v", err)
	}
	if u.GetMaxBytes() == 0 {
		return space.FieldErrorf("upload.max_bytes", "an upload needs a limit")
	}
	if u.GetNode() != node {
		return space.Errorf(space.CodeRouteStale, "the upload isn't for this node; resolve again")
	}
	return nil
}
