package manager

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	uploadv1 "github.com/space-platform/space/api/gen/upload/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// maxPuts is how many uploads come to the node at once.
const maxPuts = 16

// Call admits a call on a sandbox as Attach admits a session's stream, and passes it on to the host. The list of sessions has those that have
// ended.
func (m *Manager) Call(ctx context.Context, stream *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return peer.ToConnect(space.Errorf(space.CodeInvalid, "the call has no first message: %w", err))
	}
	route, err := peer.Route(first.GetRoute())
	if err != nil {
		return peer.ToConnect(err)
	}
	needs := admit
	if first.GetAction().GetListSessions() != nil {
		needs = admitReading
	}
	ctx, leave, err := m.table.enter(ctx, kindCall, needs, route)
	if err != nil {
		return peer.ToConnect(err)
	}
	defer leave()
	return relay.Call(ctx, m.sandboxes, first, noted{stream, func() { m.table.passed(route) }})
}

// noted is the caller's side of a call whose messages are noted.
type noted struct {
	relay.CallStream
	note func()
}

func (n noted) Receive() (*sandboxv1.CallRequest, error) {
	m, err := n.CallStream.Receive()
	if err == nil {
		n.note()
	}
	return m, err
}

func (n noted) Send(m *sandboxv1.CallResponse) error {
	n.note()
	return n.CallStream.Send(m)
}

// Put passes an upload on to the host.
func (m *Manager) Put(ctx context.Context, stream *connect.ClientStream[uploadv1.PutRequest]) (*connect.Response[uploadv1.PutResponse], error) {
	if !stream.Receive() {
		return nil, peer.ToConnect(space.Errorf(space.CodeInvalid, "the upload has no first message"))
	}
	if err := relay.CheckUpload(stream.Msg().GetUpload(), m.table.node); err != nil {
		return nil, peer.ToConnect(err)
	}
	select {
	case m.puts <- struct{}{}:
		defer func() { <-m.puts }()
	default:
		return nil, peer.ToConnect(space.Errorf(space.CodeUnavailable, "the node takes %d uploads already; try again", maxPuts))
	}
	return relay.Put(ctx, m.uploads, stream)
}
