package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	api "github.com/space-platform/space/api/gen/http"
)

// The documents of tenancy.
type (
	Me            = api.Me
	Key           = api.Key
	KeyCreate     = api.KeyCreate
	KeyCreated    = api.KeyCreated
	Project       = api.Project
	ProjectCreate = api.ProjectCreate
	ProjectUpdate = api.ProjectUpdate
	Quota         = api.Quota
	User          = api.User
	Role          = api.Role
)

// Me returns who the client's key is and what it may do.
func (c *Client) Me(ctx context.Context) (Me, error) { return decode[Me](c.api.GetMe(ctx)) }

// RolePermissions is a role with what it may do, such as sandboxes:write.
type RolePermissions struct {
	Role        Role     `json:"role"`
	Permissions []string `json:"permissions"`
}

// ListRoles returns the roles of users and keys.
func (c *Client) ListRoles(ctx context.Context) ([]RolePermissions, error) {
	p, err := decode[struct {
		Items []RolePermissions `json:"items"`
	}](c.api.ListRoles(ctx))
	if err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	return p.Items, nil
}

// ListKeys returns the keys that the caller may see, newest first, without their secrets.
func (c *Client) ListKeys(ctx context.Context) iter.Seq2[Key, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListKeys(ctx, &api.ListKeysParams{Cursor: cursor})
	},
		func(p api.KeyPage) ([]Key, *string) { return p.Items, p.NextCursor })
}

// CreateKey creates an API key; its secret is in the answer and nowhere else.
func (c *Client) CreateKey(ctx context.Context, in KeyCreate) (KeyCreated, error) {
	k, err := decode[KeyCreated](c.api.CreateKey(ctx, in))
	if err != nil {
		return k, fmt.Errorf("create key %s: %w", in.Name, err)
	}
	return k, nil
}

// RevokeKey ends a key; one that is revoked already stays so.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	if err := done(c.api.RevokeKey(ctx, id)); err != nil {
		return fmt.Errorf("revoke key %s: %w", id, err)
	}
	return nil
}

// ListProjects returns the org's projects.
func (c *Client) ListProjects(ctx context.Context) iter.Seq2[Project, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListProjects(ctx, &api.ListProjectsParams{Cursor: cursor})
	}, func(p api.ProjectPage) ([]Project, *string) { return p.Items, p.NextCursor })
}

// GetProject returns a project with its quota and what of it is used.
func (c *Client) GetProject(ctx context.Context, id string) (Project, error) {
	p, err := decode[Project](c.api.GetProject(ctx, id))
	if err != nil {
		return p, fmt.Errorf("get project %s: %w", id, err)
	}
	return p, nil
}

// CreateProject creates a project.
func (c *Client) CreateProject(ctx context.Context, in ProjectCreate) (Project, error) {
	p, err := decode[Project](c.api.CreateProject(ctx, &api.CreateProjectParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return p, fmt.Errorf("create project %s: %w", in.Name, err)
	}
	return p, nil
}

// UpdateProject changes a project's name or quota.
func (c *Client) UpdateProject(ctx context.Context, id string, in ProjectUpdate) (Project, error) {
	p, err := decode[Project](c.api.UpdateProject(ctx, id, in))
	if err != nil {
		return p, fmt.Errorf("update project %s: %w", id, err)
	}
	return p, nil
}

// DeleteProject deletes a project that has no sandboxes; its keys are revoked.
func (c *Client) DeleteProject(ctx context.Context, id string) error {
	if err := done(c.api.DeleteProject(ctx, id)); err != nil {
		return fmt.Errorf("delete project %s: %w", id, err)
	}
	return nil
}

// ListUsers returns the org's users.
func (c *Client) ListUsers(ctx context.Context) iter.Seq2[User, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListUsers(ctx, &api.ListUsersParams{Cursor: cursor})
	},
		func(p api.UserPage) ([]User, *string) { return p.Items, p.NextCursor })
}

// CreateUser adds a user to the org.
func (c *Client) CreateUser(ctx context.Context, name string, role Role) (User, error) {
	u, err := decode[User](c.api.CreateUser(ctx, &api.CreateUserParams{IdempotencyKey: idempotencyKey()}, api.UserCreate{Name: name, Role: role}))
	if err != nil {
		return u, fmt.Errorf("create user %s: %w", name, err)
	}
	return u, nil
}

// UpdateUser changes a user's role.
func (c *Client) UpdateUser(ctx context.Context, id string, role Role) (User, error) {
	u, err := decode[User](c.api.UpdateUser(ctx, id, api.UserUpdate{Role: role}))
	if err != nil {
		return u, fmt.Errorf("update user %s: %w", id, err)
	}
	return u, nil
}

// DeleteUser removes a user; their keys are revoked.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	if err := done(c.api.DeleteUser(ctx, id)); err != nil {
		return fmt.Errorf("remove user %s: %w", id, err)
	}
	return nil
}
