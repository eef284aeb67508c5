// Package dataplane answers what an edge asks about everything but the first attach: which execution a token or a signed URL opens, where a
// started session runs, who may create one, which node takes an upload. It decides nothing itself: each question has an owner, behind a
// small interface.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/uploads"
	"github.com/space-platform/space/internal/peer"
)

// maxMessage bounds a request: the largest body that creates a session, and what is around it.
const maxMessage = 4 << 20

// Access opens sandboxes.
type Access interface {
	ResolveToken(ctx context.Context, token, sandbox string) (record.Sandbox, error)
	ResolveFileURL(ctx context.Context, sandbox string, u access.FileURL) (record.Sandbox, error)
	ResolveKept(ctx context.Context, token, sandbox string) (record.Sandbox, error)
	FindEnded(ctx context.Context, materials []access.Material) ([]access.Ended, error)
}

// Sessions knows where sessions run.
type Sessions interface {
	ResolveStarted(ctx context.Context, token, session string, letSleep bool) (record.Target, error)
}

// SessionCreator creates sessions for holders of sandbox tokens: bodies are the API's.
type SessionCreator interface {
	CreateSession(ctx context.Context, sandbox, token, idempotencyKey string, body []byte, attach bool) (Session, error)
}

// Session is one that was created.
type Session struct {
	ID       string
	Document []byte         // the API's SessionCreated
	Target   *record.Target // to attach to; nil: it must be resolved
}

// Templates knows what a template sets for its sandboxes.
type Templates interface {
	Get(ctx context.Context, project, ref string) (record.Template, error)
}

// Uploads knows uploads and who may fill them.
type Uploads interface {
	Resolve(ctx context.Context, upload, token string) (record.Upload, error)
}

// Parts are the owners of the questions.
type Parts struct {
	Access    Access
	Sessions  Sessions
	Creator   SessionCreator
	Templates Templates
	Uploads   Uploads
}

// Service serves the edge. Who isn't its uid is refused.
type Service struct {
	parts Parts
	edge  int
}

var _ controlv1connect.DataPlaneServiceHandler = (*Service)(nil)

// New returns the service of parts for the edge, which runs as that uid.
func New(parts Parts, edge int) *Service { return &Service{parts: parts, edge: edge} }

// Handler returns the pattern and the handler to be mounted on the control plane's internal socket.
func (s *Service) Handler() (string, http.Handler) {
	return controlv1connect.NewDataPlaneServiceHandler(s, peer.HandlerOptions(maxMessage), connect.WithRecover(recovered))
}

func recovered(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
	slog.ErrorContext(ctx, "a call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(p))
	return peer.ToConnect(fmt.Errorf("panic in %s: %v", spec.Procedure, p))
}

// ResolveSandbox implements the edge's question for files and all else of a sandbox.
func (s *Service) ResolveSandbox(ctx context.Context, r *connect.Request[controlv1.ResolveSandboxRequest]) (*connect.Response[controlv1.ResolveSandboxResponse], error) {
	return answer(ctx, s, "resolve sandbox "+space.Clip(r.Msg.Sandbox), func() (*controlv1.ResolveSandboxResponse, error) {
		box, err := s.resolve(ctx, r.Msg)
		if err != nil {
			return nil, err
		}
		t, err := s.parts.Templates.Get(ctx, box.Project, box.Template)
		return &controlv1.ResolveSandboxResponse{Route: peer.RouteMessage(box.Execution.Route), DefaultUser: t.Defaults.User, Project: box.Project}, err
	})
}

func (s *Service) resolve(ctx context.Context, m *controlv1.ResolveSandboxRequest) (record.Sandbox, error) {
	u := m.Signed
	switch {
	case u != nil && m.Token != "":
		return record.Sandbox{}, space.Errorf(space.CodeUnauthenticated, "a token and a signature were both given: exactly one is allowed")
	case u != nil:
		return s.parts.Access.ResolveFileURL(ctx, m.Sandbox, fileURL(u))
	case m.Kept:
		return s.parts.Access.ResolveKept(ctx, m.Token, m.Sandbox)
	default:
		return s.parts.Access.ResolveToken(ctx, m.Token, m.Sandbox)
	}
}

func fileURL(u *controlv1.SignedURL) access.FileURL {
	return access.FileURL{Path: u.GetPath(), Operation: u.GetOperation(), User: u.GetUser(), Expires: u.GetExpiresUnix(), Signature: u.GetSignature()}
}

// CreateSession implements the creation of a session by the holder of a sandbox token.
func (s *Service) CreateSession(ctx context.Context, r *connect.Request[controlv1.CreateSessionRequest]) (*connect.Response[controlv1.CreateSessionResponse], error) {
	return answer(ctx, s, "create a session in sandbox "+space.Clip(r.Msg.Sandbox), func() (*controlv1.CreateSessionResponse, error) {
		made, err := s.parts.Creator.CreateSession(ctx, r.Msg.Sandbox, r.Msg.Token, r.Msg.IdempotencyKey, r.Msg.Body, r.Msg.Attach)
		out := &controlv1.CreateSessionResponse{Body: made.Document, Session: made.ID}
		if made.Target != nil {
			out.Target = nodesync.WriteTarget(*made.Target)
		}
		return out, err
	})
}

// ResolveSession implements the edge's question for what concerns a session that was started.
func (s *Service) ResolveSession(ctx context.Context, r *connect.Request[controlv1.ResolveSessionRequest]) (*connect.Response[controlv1.ResolveSessionResponse], error) {
	return answer(ctx, s, "resolve session "+space.Clip(r.Msg.Session), func() (*controlv1.ResolveSessionResponse, error) {
		t, err := s.parts.Sessions.ResolveStarted(ctx, r.Msg.Token, r.Msg.Session, r.Msg.LetSleep)
		if err != nil {
			return nil, err
		}
		return &controlv1.ResolveSessionResponse{Route: peer.RouteMessage(t.Execution.Route), Session: t.Session.ID, Project: t.Project}, nil
	})
}

// ResolveUpload implements the edge's question for an upload.
func (s *Service) ResolveUpload(ctx context.Context, r *connect.Request[controlv1.ResolveUploadRequest]) (*connect.Response[controlv1.ResolveUploadResponse], error) {
	return answer(ctx, s, "resolve upload "+space.Clip(r.Msg.Upload), func() (*controlv1.ResolveUploadResponse, error) {
		u, err := s.parts.Uploads.Resolve(ctx, r.Msg.Upload, r.Msg.Token)
		return &controlv1.ResolveUploadResponse{Upload: u.ID, Node: u.Node, Sha256: u.SHA256, MaxBytes: uploads.MaxBytes, Project: u.Project, ProjectBytes: uploads.Room(u)}, err
	})
}

// FindEnded implements the edge's question for what is open.
func (s *Service) FindEnded(ctx context.Context, r *connect.Request[controlv1.FindEndedRequest]) (*connect.Response[controlv1.FindEndedResponse], error) {
	return answer(ctx, s, "find the materials that have ended", func() (*controlv1.FindEndedResponse, error) {
		materials := make([]access.Material, len(r.Msg.Materials))
		for i, m := range r.Msg.Materials {
			materials[i] = access.Material{Token: m.GetToken(), Sandbox: m.GetSandbox(), URL: fileURL(m.GetSigned())}
		}
		ended, err := s.parts.Access.FindEnded(ctx, materials)
		out := &controlv1.FindEndedResponse{}
		for _, e := range ended {
			out.Ended = append(out.Ended, &controlv1.EndedMaterial{Index: uint32(e.Index), Revoked: e.Revoked})
		}
		return out, err
	})
}

// answer runs a question of the edge's. An error without a code has its chain in the operator's log only.
func answer[T any](ctx context.Context, s *Service, doing string, do func() (*T, error)) (*connect.Response[T], error) {
	if uid, ok := peer.UID(ctx); !ok || uid != s.edge {
		return nil, peer.ToConnect(space.Errorf(space.CodeForbidden, "this procedure isn't for the calling peer"))
	}
	out, err := do()
	if err != nil {
		if space.CodeOf(err) == space.CodeInternal && !errors.Is(err, context.Canceled) {
			slog.ErrorContext(ctx, "a call went wrong", "doing", doing, "err", err)
		}
		return nil, peer.ToConnect(err)
	}
	return connect.NewResponse(out), nil
}
