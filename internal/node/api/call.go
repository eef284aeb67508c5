package api

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// Call passes a call on a sandbox between the edge and sbx-manager, unread but for its first message.
func (d *door) Call(ctx context.Context, stream *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	release, err := slot(d.calls, "calls")
	if err != nil {
		return peer.ToConnect(err)
	}
	defer release()
	first, err := stream.Receive()
	if err != nil {
		return peer.ToConnect(space.Errorf(space.CodeInvalid, "the call has no first message: %w", err))
	}
	if err := d.checkRoute(first.GetRoute()); err != nil {
		return peer.ToConnect(err)
	}
	return relay.Call(ctx, d.sandboxes, first, stream)
}

// Put passes an upload on to sbx-manager.
func (d *door) Put(ctx context.Context, stream *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	release, err := slot(d.puts, "uploads")
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	defer release()
	if !stream.Receive() {
		return nil, peer.ToConnect(space.Errorf(space.CodeInvalid, "the upload has no first message"))
	}
	if err := relay.CheckUpload(stream.Msg().GetUpload(), d.node); err != nil {
		return nil, peer.ToConnect(err)
	}
	return relay.Put(ctx, d.uploads, stream)
}
