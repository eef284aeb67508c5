package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/sessions"
)

// CreateSession creates a session with its first attachment token.
func (h handlers) CreateSession(ctx context.Context, r gen.CreateSessionRequestObject) (gen.CreateSessionResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createSession", r.Sandbox, r.Body)
	if err != nil {
		return nil, err
	}
	s, a, err := h.Sessions.Create(ctx, caller(ctx), r.Sandbox, readSession(r.Body), request)
	if err != nil {
		return nil, err
	}
	return gen.CreateSession201JSONResponse{Session: renderSession(s), Attachment: renderAttachment(a)}, nil
}

func readSession(b *gen.SessionCreate) sessions.Create {
	out := sessions.Create{Shell: b.Shell}
	if b.Argv != nil {
		out.Argv = *b.Argv
	}
	if b.Cwd != nil {
		out.Cwd = *b.Cwd
	}
	if b.Env != nil {
		out.Env = *b.Env
	}
	if b.User != nil {
		out.User = *b.User
	}
	if b.Stdin != nil {
		out.Stdin = *b.Stdin
	}
	return out
}

// GetSession returns a session.
func (h handlers) GetSession(ctx context.Context, r gen.GetSessionRequestObject) (gen.GetSessionResponseObject, error) {
	s, err := h.Sessions.Get(ctx, caller(ctx).Project, r.Sandbox, r.Session)
	if err != nil {
		return nil, err
	}
	return gen.GetSession200JSONResponse(renderSession(s)), nil
}

// CreateAttachment issues another token of a session.
func (h handlers) CreateAttachment(ctx context.Context, r gen.CreateAttachmentRequestObject) (gen.CreateAttachmentResponseObject, error) {
	a, err := h.Sessions.Attach(ctx, caller(ctx).Project, r.Sandbox, r.Session)
	if err != nil {
		return nil, err
	}
	return gen.CreateAttachment201JSONResponse(renderAttachment(a)), nil
}
