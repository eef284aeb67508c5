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
	made, err := h.Sessions.Create(ctx, caller(ctx), r.Sandbox, readSession(r.Body), request)
	if err != nil {
		return nil, err
	}
	return gen.CreateSession201JSONResponse{Session: renderSession(made.Session), Attachment: renderAttachment(made.Attachment)}, nil
}

func readSession(b *gen.SessionCreate) sessions.Create {
	out := sessions.Create{Shell: b.Shell, OpenStdin: b.OpenStdin != nil && *b.OpenStdin, TimeoutSeconds: b.TimeoutSeconds}
	if b.Tty != nil {
		out.TTY = &sessions.Terminal{Rows: b.Tty.Rows, Cols: b.Tty.Cols}
	}
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

// ListSessions returns a page of a sandbox's sessions.
func (h handlers) ListSessions(ctx context.Context, r gen.ListSessionsRequestObject) (gen.ListSessionsResponseObject, error) {
	l := h.list(ctx, "sessions", r.Sandbox)
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Sessions.List(ctx, caller(ctx).Project, r.Sandbox, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListSessions200JSONResponse{Items: make([]gen.Session, 0, len(rows)), NextCursor: cursor}
	for _, s := range rows {
		out.Items = append(out.Items, renderSession(s))
	}
	return out, nil
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
	request, err := readRequest(r.Params.IdempotencyKey, "createAttachment", r.Sandbox+"/"+r.Session, nil)
	if err != nil {
		return nil, err
	}
	a, err := h.Sessions.Attach(ctx, caller(ctx), r.Sandbox, r.Session, request)
	if err != nil {
		return nil, err
	}
	return gen.CreateAttachment201JSONResponse(renderAttachment(a)), nil
}
