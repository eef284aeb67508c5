package manager

import (
	"context"

	"connectrpc.com/connect"

	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// Attach admits a session's stream if its route is, in every field, the one of an execution that runs here or has run, and passes it on to the
// host. Where nothing is to be started the execution needn't have come to run.
func (m *Manager) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	route, err := peer.Route(req.Msg.GetRoute())
	if err != nil {
		return peer.ToConnect(err)
	}
	needs := admitAttach
	if req.Msg.GetSpec() == nil {
		needs = admitReading
	}
	ctx, leave, err := m.table.enter(ctx, kindAttach, needs, route)
	if err != nil {
		return peer.ToConnect(err)
	}
	defer leave()
	return relay.Copy(ctx, m.sessions, req.Msg, func(e *sessionv1.AttachResponse) error {
		m.table.passed(route)
		return out.Send(e)
	})
}
