package api

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// Attach passes a session's stream between the edge and sbx-manager.
func (d *door) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	if err := d.checkAttach(req.Msg); err != nil {
		return peer.ToConnect(err)
	}
	release, err := slot(d.streams, "streams")
	if err != nil {
		return peer.ToConnect(err)
	}
	defer release()
	return relay.Copy(ctx, d.manager, req.Msg, out.Send)
}

func (d *door) checkAttach(m *sessionv1.AttachRequest) error {
	if err := space.CheckID(space.PrefixSession, m.GetSession()); err != nil {
		return space.FieldErrorf("session", "%v", err)
	}
	if m.GetSpec() != nil && len(m.GetSpec().GetArgv()) == 0 {
		return space.FieldErrorf("spec.argv", "nothing to run")
	}
	return d.checkRoute(m.GetRoute())
}

// checkRoute refuses a route that isn't whole, and one that names another place than this node.
func (d *door) checkRoute(m *routev1.Route) error {
	r, err := peer.Route(m)
	if err != nil {
		return err
	}
	if want := (space.Placement{Kind: space.PlacementNode, Node: d.node}); r.Placement != want {
		return space.Errorf(space.CodeRouteStale, "the request's placement isn't this node; resolve again")
	}
	return nil
}
