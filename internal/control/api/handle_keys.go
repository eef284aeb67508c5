package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/record"
)

// ListKeys returns a page of the keys that the caller may see, without the secrets.
func (h handlers) ListKeys(ctx context.Context, r gen.ListKeysRequestObject) (gen.ListKeysResponseObject, error) {
	l := h.list(ctx, "keys")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Keys.List(ctx, who(ctx).key, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListKeys200JSONResponse{Items: make([]gen.Key, 0, len(rows)), NextCursor: cursor}
	for _, k := range rows {
		out.Items = append(out.Items, renderKey(k))
	}
	return out, nil
}

// CreateKey makes a key and shows it, once.
func (h handlers) CreateKey(ctx context.Context, r gen.CreateKeyRequestObject) (gen.CreateKeyResponseObject, error) {
	c := keys.Create{Name: r.Body.Name, Project: r.Body.Project, User: r.Body.User, ExpiresAt: r.Body.ExpiresAt}
	if r.Body.Role != nil {
		role := space.Role(*r.Body.Role)
		c.Role = &role
	}
	if r.Body.Format != nil {
		format := keys.Format(*r.Body.Format)
		c.Format = &format
	}
	made, secret, err := h.Keys.Create(ctx, who(ctx).key, c)
	if err != nil {
		return nil, err
	}
	return gen.CreateKey201JSONResponse{Key: renderKey(made), Secret: secret}, nil
}

// RevokeKey ends a key.
func (h handlers) RevokeKey(ctx context.Context, r gen.RevokeKeyRequestObject) (gen.RevokeKeyResponseObject, error) {
	if err := h.Keys.Revoke(ctx, who(ctx).key, r.Key); err != nil {
		return nil, err
	}
	return gen.RevokeKey204Response{}, nil
}

func renderKey(k record.Key) gen.Key {
	return gen.Key{
		Id: k.ID, Name: k.Name, Prefix: k.Prefix, Role: gen.Role(k.Granted), Project: k.Project, User: notEmpty(k.Holder),
		CreatedAt: k.CreatedAt.UTC(), ExpiresAt: notZero(k.ExpiresAt), RevokedAt: notZero(k.RevokedAt), LastUsedAt: notZero(k.LastUsedAt),
	}
}
