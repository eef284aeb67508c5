package nodesync_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/peer"
)

// fixedResolver opens one session.
type fixedResolver struct{ target record.Target }

func (r fixedResolver) Resolve(_ context.Context, token, session string) (record.Target, error) {
	if token != "token" || session != r.target.Session.ID {
		return record.Target{}, space.Errorf(space.CodeUnauthenticated, "no")
	}
	return r.target, nil
}

// serve runs a service that lets this process in as the given peers, and returns a client of it.
func (r fixedResolver) ResolveAsleep(ctx context.Context, token, session string) (record.Target, error) {
	return r.Resolve(ctx, token, session)
}

func serve(t *testing.T, store nodesync.Store, resolver nodesync.Resolver, peers nodesync.Peers) controlv1connect.ControlServiceClient {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	service := nodesync.NewService(nodesync.NewNode("n", store, activity.New(nil), new(wake.Bell)), resolver, peers)
	l, err := service.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Serve(ctx, l) }()
	client := peer.Client(socket, os.Geteuid())
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return controlv1connect.NewControlServiceClient(client, "http://control")
}

const nobody = 65534

func TestServiceSynchronizes(t *testing.T) {
	route, tpl := newRoute(), space.NewID(space.PrefixTemplate)
	store := &memory{wanted: record.Wanted{
		Executions: []record.WantedExecution{{Route: route, Template: "tpl_x", Shape: record.Shape{VCPUs: 1, MemoryBytes: 2, DiskBytes: 3}, Want: record.WantRunning, Recorded: space.ExecutionPending}},
		Templates:  []record.WantedTemplate{{ID: tpl}},
	}, builds: map[string]record.BuildOrder{tpl: {Template: tpl, Build: record.Build{Source: record.Source{Recipe: "mini"}}}}}
	c := serve(t, store, fixedResolver{}, nodesync.Peers{Node: os.Geteuid(), Edge: nobody})
	unknown := newRoute()
	res, err := c.Synchronize(t.Context(), connect.NewRequest(&controlv1.SynchronizeRequest{
		Node: "n", Complete: true, MaxHang: durationpb.New(time.Minute), Facts: &controlv1.NodeFacts{Driver: "fa\x00ke", Cpus: 2},
		Executions: []*controlv1.ExecutionReport{{Route: peer.RouteMessage(unknown), State: "running", Since: timestamppb.Now()}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	orders := res.Msg.Orders
	if len(orders) != 3 || res.Msg.CallAgainAfter.AsDuration() != 0 {
		t.Fatalf("orders: %v", res.Msg)
	}
	ensure, remove, build := orders[0].GetEnsureExecution(), orders[1].GetRemoveExecution(), orders[2].GetEnsureTemplate()
	if got, err := peer.Route(ensure.GetRoute()); err != nil || got != route || ensure.Template != "tpl_x" || ensure.Shape.DiskBytes != 3 {
		t.Errorf("ensure: %v, %v", ensure, err)
	}
	if got, err := peer.Route(remove.GetRoute()); err != nil || got != unknown {
		t.Errorf("remove: %v, %v", remove, err)
	}
	if build.GetRecipe() != "mini" {
		t.Errorf("build: %v", build)
	}
	if f := store.seen[0].Facts; f == nil || f.Driver != "fake" || f.CPUs != 2 {
		t.Errorf("facts: %+v", f)
	}
}

func TestServiceRefusesReports(t *testing.T) {
	c := serve(t, &memory{}, fixedResolver{}, nodesync.Peers{Node: os.Geteuid(), Edge: nobody})
	noEpoch := newRoute()
	noEpoch.Epoch = 0
	executions := func(r space.Route, state string) *controlv1.SynchronizeRequest {
		return &controlv1.SynchronizeRequest{Node: "n", Executions: []*controlv1.ExecutionReport{{Route: peer.RouteMessage(r), State: state}}}
	}
	for name, x := range map[string]struct {
		request *controlv1.SynchronizeRequest
		want    space.Code
	}{
		"no node":        {&controlv1.SynchronizeRequest{}, space.CodeForbidden},
		"another node":   {&controlv1.SynchronizeRequest{Node: "m"}, space.CodeForbidden},
		"no route":       {&controlv1.SynchronizeRequest{Node: "n", Executions: []*controlv1.ExecutionReport{{State: "running"}}}, space.CodeInvalid},
		"no epoch":       {executions(noEpoch, "running"), space.CodeInvalid},
		"gone":           {executions(newRoute(), "gone"), space.CodeInvalid},
		"unknown state":  {executions(newRoute(), "dancing"), space.CodeInvalid},
		"template id":    {&controlv1.SynchronizeRequest{Node: "n", Templates: []*controlv1.TemplateReport{{Template: "mini", State: "ready"}}}, space.CodeInvalid},
		"template state": {&controlv1.SynchronizeRequest{Node: "n", Templates: []*controlv1.TemplateReport{{Template: space.NewID(space.PrefixTemplate), State: "?"}}}, space.CodeInvalid},
		"too many":       {&controlv1.SynchronizeRequest{Node: "n", Templates: make([]*controlv1.TemplateReport, 10_001)}, space.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			for i, m := range x.request.Templates {
				if m == nil {
					x.request.Templates[i] = &controlv1.TemplateReport{}
				}
			}
			_, err := c.Synchronize(t.Context(), connect.NewRequest(x.request))
			if got := space.CodeOf(peer.FromConnect(err)); got != x.want {
				t.Errorf("code %s, want %s: %v", got, x.want, err)
			}
		})
	}
}

// TestPeersHaveTheirParts calls as one peer what is the other's.
func TestPeersHaveTheirParts(t *testing.T) {
	target := record.Target{Session: record.Session{ID: "ses_1", Spec: record.Spec{Argv: []string{"a"}, Stdin: []byte("b")}}, Execution: record.Execution{Route: newRoute()}}
	resolve := connect.NewRequest(&controlv1.ResolveAttachmentRequest{Token: "token", Session: "ses_1"})
	synchronize := connect.NewRequest(&controlv1.SynchronizeRequest{Node: "n"})

	node := serve(t, &memory{}, fixedResolver{target}, nodesync.Peers{Node: os.Geteuid(), Edge: nobody})
	if _, err := node.ResolveAttachment(t.Context(), resolve); space.CodeOf(peer.FromConnect(err)) != space.CodeForbidden {
		t.Errorf("the node resolves: %v", err)
	}
	edge := serve(t, &memory{}, fixedResolver{target}, nodesync.Peers{Node: nobody, Edge: os.Geteuid()})
	if _, err := edge.Synchronize(t.Context(), synchronize); space.CodeOf(peer.FromConnect(err)) != space.CodeForbidden {
		t.Errorf("the edge synchronizes: %v", err)
	}
	res, err := edge.ResolveAttachment(t.Context(), resolve)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := peer.Route(res.Msg.Route); err != nil || got != target.Execution.Route || res.Msg.Spec.Argv[0] != "a" || string(res.Msg.Spec.Stdin) != "b" {
		t.Errorf("%v, %v", res.Msg, err)
	}
	_, err = edge.ResolveAttachment(t.Context(), connect.NewRequest(&controlv1.ResolveAttachmentRequest{Token: "another", Session: "ses_1"}))
	if space.CodeOf(peer.FromConnect(err)) != space.CodeUnauthenticated {
		t.Errorf("another token: %v", err)
	}
	stranger := serve(t, &memory{}, fixedResolver{}, nodesync.Peers{Node: nobody, Edge: nobody})
	if _, err := stranger.Synchronize(t.Context(), synchronize); err == nil {
		t.Error("a stranger was let in")
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add("n", "running", strings.Repeat("a", 10), uint64(1))
	f.Fuzz(func(t *testing.T, node, state, text string, epoch uint64) {
		nodesync.ReadReport(t, node, state, text, epoch)
	})
}
