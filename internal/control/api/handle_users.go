package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// ListUsers returns a page of the organisation's users.
func (h handlers) ListUsers(ctx context.Context, r gen.ListUsersRequestObject) (gen.ListUsersResponseObject, error) {
	l := h.list(ctx, "users")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Users.List(ctx, who(ctx).key, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListUsers200JSONResponse{Items: make([]gen.User, 0, len(rows)), NextCursor: cursor}
	for _, u := range rows {
		out.Items = append(out.Items, renderUser(u))
	}
	return out, nil
}

// CreateUser adds a user to the organisation.
func (h handlers) CreateUser(ctx context.Context, r gen.CreateUserRequestObject) (gen.CreateUserResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createUser", "", r.Body)
	if err != nil {
		return nil, err
	}
	u, err := h.Users.Create(ctx, who(ctx).key, r.Body.Name, space.Role(r.Body.Role), request)
	if err != nil {
		return nil, err
	}
	return gen.CreateUser201JSONResponse(renderUser(u)), nil
}

// UpdateUser changes a user's role.
func (h handlers) UpdateUser(ctx context.Context, r gen.UpdateUserRequestObject) (gen.UpdateUserResponseObject, error) {
	u, err := h.Users.SetRole(ctx, who(ctx).key, r.User, space.Role(r.Body.Role))
	if err != nil {
		return nil, err
	}
	return gen.UpdateUser200JSONResponse(renderUser(u)), nil
}

// DeleteUser removes a user.
func (h handlers) DeleteUser(ctx context.Context, r gen.DeleteUserRequestObject) (gen.DeleteUserResponseObject, error) {
	if err := h.Users.Remove(ctx, who(ctx).key, r.User); err != nil {
		return nil, err
	}
	return gen.DeleteUser204Response{}, nil
}

func renderUser(u record.User) gen.User {
	return gen.User{Id: u.ID, Name: u.Name, Role: gen.Role(u.Role), CreatedAt: u.CreatedAt.UTC()}
}
