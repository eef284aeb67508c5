package manager

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

// strays are the ways in which one field of a route can be another's, or nobody's, and what each hop of a node answers: the door, which
// knows the node, and the manager, which knows the records.
var strays = []struct {
	name          string
	stray         func(*routev1.Route)
	door, manager space.Code
}{
	{"another sandbox", func(r *routev1.Route) { r.Sandbox = space.NewID(space.PrefixSandbox) }, space.CodeRouteDenied, space.CodeRouteDenied},
	{"another execution", func(r *routev1.Route) { r.Execution = space.NewID(space.PrefixExecution) }, space.CodeRouteStale, space.CodeRouteStale},
	{"an earlier epoch", func(r *routev1.Route) { r.Epoch-- }, space.CodeRouteStale, space.CodeRouteStale},
	{"a later epoch", func(r *routev1.Route) { r.Epoch++ }, space.CodeRouteStale, space.CodeRouteStale},
	{"another kind", func(r *routev1.Route) {
		r.Placement.Kind, r.Placement.PodUid = routev1.PlacementKind_PLACEMENT_KIND_POD, "0001"
	}, space.CodeRouteStale, space.CodeRouteStale},
	{"another node", func(r *routev1.Route) { r.Placement.Node = "elsewhere" }, space.CodeRouteStale, space.CodeRouteStale},
	{"a pod's uid", func(r *routev1.Route) { r.Placement.PodUid = "0001" }, space.CodeInvalid, space.CodeInvalid},
	{"a pod without a uid", func(r *routev1.Route) { r.Placement.Kind = routev1.PlacementKind_PLACEMENT_KIND_POD }, space.CodeInvalid, space.CodeInvalid},
	{"no kind", func(r *routev1.Route) { r.Placement.Kind = 0 }, space.CodeInvalid, space.CodeInvalid},
	{"an unknown kind", func(r *routev1.Route) { r.Placement.Kind = 7 }, space.CodeInvalid, space.CodeInvalid},
	{"no sandbox", func(r *routev1.Route) { r.Sandbox = "" }, space.CodeInvalid, space.CodeInvalid},
	{"no execution", func(r *routev1.Route) { r.Execution = "" }, space.CodeInvalid, space.CodeInvalid},
	{"the sandbox's id as the execution's", func(r *routev1.Route) { r.Execution = r.Sandbox }, space.CodeInvalid, space.CodeInvalid},
	{"no epoch", func(r *routev1.Route) { r.Epoch = 0 }, space.CodeInvalid, space.CodeInvalid},
	{"no node", func(r *routev1.Route) { r.Placement.Node = "" }, space.CodeInvalid, space.CodeInvalid},
	{"no placement", func(r *routev1.Route) { r.Placement = nil }, space.CodeInvalid, space.CodeInvalid},
}

func strayed(r space.Route, stray func(*routev1.Route)) *routev1.Route {
	m := proto.Clone(peer.RouteMessage(r)).(*routev1.Route)
	stray(m)
	return m
}

// running2 is an execution at epoch 2, so that an earlier epoch is one that could have been.
func (r *rig) running2(t *testing.T) space.Route {
	t.Helper()
	route := newRoute()
	route.Epoch = 2
	r.control.want(route)
	r.control.hears(t, route, space.ExecutionRunning)
	return route
}

func TestEveryHopRefusesAStrayRoute(t *testing.T) {
	r := newRig(t)
	e := r.running2(t)
	r.running(t) // another sandbox is here too
	hops := map[string]sessionv1connect.SessionServiceClient{
		"door":    r.sessions,
		"manager": sessionv1connect.NewSessionServiceClient(peer.Client(r.path("manager"), 0), onSocket, peer.ClientOptions(relay.MaxEventBytes)),
	}
	for hop, client := range hops {
		for _, tt := range strays {
			want := map[string]space.Code{"door": tt.door, "manager": tt.manager}[hop]
			req := attachRequest(e)
			req.Route = strayed(e, tt.stray)
			if got := attachCode(t, client, req); got != want {
				t.Errorf("%s: %s: %q, want %q", hop, tt.name, got, want)
			}
		}
		req := attachRequest(e)
		req.Route = nil
		if got := attachCode(t, client, req); got != space.CodeInvalid {
			t.Errorf("%s: no route: %q", hop, got)
		}
		if got := attachCode(t, client, attachRequest(e)); got != "" {
			t.Errorf("%s: the right route: %q", hop, got)
		}
	}
}

// attachCode is how an attach begins: with an event ("") or an error.
func attachCode(t *testing.T, c sessionv1connect.SessionServiceClient, req *sessionv1.AttachRequest) space.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	s, err := c.Attach(ctx, connect.NewRequest(req))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Receive() {
		return ""
	}
	return space.CodeOf(peer.FromConnect(s.Err()))
}

func TestStrayOrdersAreNotFollowed(t *testing.T) {
	r := newRig(t)
	e := r.running2(t)
	for _, tt := range strays {
		if tt.name == "another execution" || tt.name == "another sandbox" {
			continue // those are orders about others
		}
		r.control.send(&controlv1.Order{Order: &controlv1.Order_RemoveExecution{RemoveExecution: &controlv1.RemoveExecution{Route: strayed(e, tt.stray)}}})
		fresh := newRoute()
		fresh.Epoch = 2
		if tt.name == "an earlier epoch" || tt.name == "a later epoch" {
			fresh = e // an execution has one epoch for its life
		}
		order := ensureMessage(fresh)
		order.Route = strayed(fresh, tt.stray)
		r.control.send(&controlv1.Order{Order: &controlv1.Order_EnsureExecution{EnsureExecution: order}})
	}
	r.running(t) // another round has been made
	r.host.Lock()
	defer r.host.Unlock()
	if len(r.host.removed) != 0 || len(r.host.created) != 2 {
		t.Errorf("removed %v, made %v", r.host.removed, r.host.created)
	}
}

func TestTheDoorRefusesStrayReports(t *testing.T) {
	r := newRig(t)
	r.stop() // its own reports would mix with these
	door := controlv1connect.NewControlServiceClient(peer.Client(r.path("door"), 0), onSocket, peer.ClientOptions(MaxReportBytes))
	report := func(node string, route *routev1.Route) space.Code {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		_, err := door.Synchronize(ctx, connect.NewRequest(&controlv1.SynchronizeRequest{
			Node: node, Complete: true, Executions: []*controlv1.ExecutionReport{{Route: route, State: string(space.ExecutionRunning)}},
		}))
		return space.CodeOf(peer.FromConnect(err))
	}
	e := newRoute()
	e.Epoch = 2
	for _, tt := range strays {
		m := strayed(e, tt.stray)
		want := space.Code("")
		if _, err := peer.Route(m); err != nil {
			want = space.CodeInvalid
		} else if m.GetPlacement().GetKind() != routev1.PlacementKind_PLACEMENT_KIND_NODE || m.GetPlacement().GetNode() != nodeName {
			want = space.CodeRouteStale
		}
		if got := report(nodeName, m); got != want {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
	}
	if got := report("elsewhere", peer.RouteMessage(e)); got != space.CodeInvalid {
		t.Errorf("another node's report: %q", got)
	}
}
