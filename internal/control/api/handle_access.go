package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/record"
)

// CreateSandboxToken issues a token of a sandbox.
func (h handlers) CreateSandboxToken(ctx context.Context, r gen.CreateSandboxTokenRequestObject) (gen.CreateSandboxTokenResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createSandboxToken", r.Sandbox, r.Body)
	if err != nil {
		return nil, err
	}
	var c access.CreateToken
	if r.Body != nil {
		c.ExpiresInSeconds = r.Body.ExpiresInSeconds
		if r.Body.Name != nil {
			c.Name = *r.Body.Name
		}
	}
	by := caller(ctx)
	issued, err := h.Access.Create(ctx, by.Project, by.Key, r.Sandbox, c, request)
	if err != nil {
		return nil, err
	}
	return gen.CreateSandboxToken201JSONResponse{Token: renderToken(issued.Token), Secret: issued.Secret, Url: issued.URL}, nil
}

// ListSandboxTokens returns a sandbox's valid tokens, without the secrets.
func (h handlers) ListSandboxTokens(ctx context.Context, r gen.ListSandboxTokensRequestObject) (gen.ListSandboxTokensResponseObject, error) {
	rows, err := h.Access.List(ctx, caller(ctx).Project, r.Sandbox)
	if err != nil {
		return nil, err
	}
	out := gen.ListSandboxTokens200JSONResponse{Items: make([]gen.SandboxToken, 0, len(rows))}
	for _, t := range rows {
		out.Items = append(out.Items, renderToken(t))
	}
	return out, nil
}

// RevokeSandboxToken ends a token.
func (h handlers) RevokeSandboxToken(ctx context.Context, r gen.RevokeSandboxTokenRequestObject) (gen.RevokeSandboxTokenResponseObject, error) {
	if err := h.Access.Revoke(ctx, caller(ctx).Project, r.Sandbox, r.Token); err != nil {
		return nil, err
	}
	return gen.RevokeSandboxToken204Response{}, nil
}

// CreateFileURL signs a URL of one file.
func (h handlers) CreateFileURL(ctx context.Context, r gen.CreateFileURLRequestObject) (gen.CreateFileURLResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createFileURL", r.Sandbox, r.Body)
	if err != nil {
		return nil, err
	}
	c := access.CreateFileURL{Path: r.Body.Path, Operation: string(r.Body.Operation), ExpiresInSeconds: r.Body.ExpiresInSeconds}
	if r.Body.User != nil {
		c.User = *r.Body.User
	}
	signed, err := h.Access.Sign(ctx, caller(ctx).Project, r.Sandbox, c, request)
	if err != nil {
		return nil, err
	}
	return gen.CreateFileURL201JSONResponse{Url: signed.URL, ExpiresAt: signed.ExpiresAt.UTC()}, nil
}

// RevokeFileURLs voids all that was signed for a sandbox.
func (h handlers) RevokeFileURLs(ctx context.Context, r gen.RevokeFileURLsRequestObject) (gen.RevokeFileURLsResponseObject, error) {
	if err := h.Access.RevokeFileURLs(ctx, caller(ctx).Project, r.Sandbox); err != nil {
		return nil, err
	}
	return gen.RevokeFileURLs204Response{}, nil
}

func renderToken(t record.SandboxToken) gen.SandboxToken {
	return gen.SandboxToken{Id: t.ID, Sandbox: t.Sandbox, Name: notEmpty(t.Name), CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC()}
}
