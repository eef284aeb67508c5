package nodesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/peer"
)

const (
	// maxMessage bounds a request: a report of maxReported entries of ordinary size.
	maxMessage = 16 << 20
	// callAgain is when a node that doesn't hang, and was told nothing, should call again.
	callAgain = time.Second
)

// Resolver turns attachment tokens into sessions and the executions to open them in.
type Resolver interface {
	Resolve(ctx context.Context, token, session string) (record.Target, error)
	ResolveAsleep(ctx context.Context, token, session string) (record.Target, error)
}

// Peers are the uids that may call: each its own part.
type Peers struct {
	Node int // node-api: Synchronize
	Edge int // the edge: ResolveAttachment
}

// Service serves the control plane's internal contract to nodes and edges.
type Service struct {
	node     *Node
	resolver Resolver
	peers    Peers
	mux      *http.ServeMux
}

var _ controlv1connect.ControlServiceHandler = (*Service)(nil)

// NewService returns the service of a node's synchronization and a resolver.
func NewService(node *Node, resolver Resolver, peers Peers) *Service {
	s := &Service{node: node, resolver: resolver, peers: peers, mux: http.NewServeMux()}
	s.Mount(controlv1connect.NewControlServiceHandler(s, peer.HandlerOptions(maxMessage), connect.WithRecover(recovered)))
	return s
}

// Mount serves another service on the same socket, which says itself which peer may call it. Call it before Serve.
func (s *Service) Mount(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Listen makes the unix socket that Serve serves, and lets nobody in but the peers.
func (s *Service) Listen(socket string) (net.Listener, error) {
	return peer.Listen(socket, s.peers.Node, s.peers.Edge)
}

// Serve serves a listener that Listen made until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	return peer.Serve(ctx, l, s.mux)
}

func recovered(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
	slog.ErrorContext(ctx, "a call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(p))
	return peer.ToConnect(fmt.Errorf("panic in %s: %v", spec.Procedure, p))
}

// only refuses callers other than the one peer whose part a procedure is.
func only(ctx context.Context, uid int) error {
	if got, ok := peer.UID(ctx); !ok || got != uid {
		return space.Errorf(space.CodeForbidden, "this procedure isn't for the calling peer")
	}
	return nil
}

// Synchronize implements the verb for the one node that is expected.
func (s *Service) Synchronize(ctx context.Context, r *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	out, err := s.synchronize(ctx, r.Msg)
	if err != nil {
		return nil, refuse(ctx, "synchronize node "+space.Clip(r.Msg.Node), err)
	}
	return connect.NewResponse(out), nil
}

func (s *Service) synchronize(ctx context.Context, m *controlv1.SynchronizeRequest) (*controlv1.SynchronizeResponse, error) {
	if err := only(ctx, s.peers.Node); err != nil {
		return nil, err
	}
	if m.Node != s.node.name {
		return nil, space.Errorf(space.CodeForbidden, "node %q is not registered here", space.Clip(m.Node))
	}
	report, err := readReport(m)
	if err != nil {
		return nil, err
	}
	hang := m.GetMaxHang().AsDuration()
	answer, err := s.node.Synchronize(ctx, report, hang)
	if err != nil {
		return nil, err
	}
	out := writeAnswer(answer)
	if hang <= 0 && len(out.Orders) == 0 && len(out.LogsReceived) == 0 && len(out.SessionEndsReceived) == 0 {
		out.CallAgainAfter = durationpb.New(callAgain)
	}
	return out, nil
}

// ResolveAttachment implements the edge's question.
func (s *Service) ResolveAttachment(ctx context.Context, r *connect.Request[controlv1.ResolveAttachmentRequest]) (*connect.Response[controlv1.ResolveAttachmentResponse], error) {
	if err := only(ctx, s.peers.Edge); err != nil {
		return nil, refuse(ctx, "resolve an attachment", err)
	}
	resolve := s.resolver.Resolve
	if r.Msg.LetSleep {
		resolve = s.resolver.ResolveAsleep
	}
	t, err := resolve(ctx, r.Msg.Token, r.Msg.Session)
	if err != nil {
		return nil, refuse(ctx, "resolve an attachment of session "+space.Clip(r.Msg.Session), err)
	}
	return connect.NewResponse(WriteTarget(t)), nil
}

// WriteTarget is what an edge gets to attach to.
func WriteTarget(t record.Target) *controlv1.ResolveAttachmentResponse {
	out := &controlv1.ResolveAttachmentResponse{Route: peer.RouteMessage(t.Execution.Route), Session: t.Session.ID, Project: t.Project}
	if !t.Kept {
		out.Spec = writeSpec(t.Session.Spec)
	}
	return out
}

// refuse writes an error for the wire; one without a code has its chain in the operator's log only.
func refuse(ctx context.Context, doing string, err error) error {
	if space.CodeOf(err) == space.CodeInternal && !errors.Is(err, context.Canceled) {
		slog.ErrorContext(ctx, "a call went wrong", "doing", doing, "err", err)
	}
	return peer.ToConnect(err)
}
