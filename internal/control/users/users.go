// Package users has what an organisation's owners can do with its users. A user is a name that keys can belong to and a role that they
// never exceed; users don't log in.
package users

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/name"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// MaxPage bounds a page of the list.
	MaxPage = 100
	// maxName bounds a user's name, in characters.
	maxName = 128
)

// Store keeps users.
type Store interface {
	CreateUser(ctx context.Context, n record.NewUser) (id string, err error)
	User(ctx context.Context, org, id string) (record.User, error)
	Users(ctx context.Context, org string, after record.Position, limit int) ([]record.User, error)
	SetUserRole(ctx context.Context, org, id string, role space.Role) error
	RemoveUser(ctx context.Context, org, id string) error
}

// Users are the users of all organisations.
type Users struct{ store Store }

// New returns the users in a store.
func New(store Store) *Users { return &Users{store: store} }

// Create adds a user to the caller's organisation. The same request with the same Idempotency-Key returns the same one.
func (u *Users) Create(ctx context.Context, by record.Key, called string, role space.Role, r record.Request) (record.User, error) {
	if err := name.Check("name", called, maxName); err != nil {
		return record.User{}, err
	}
	if err := checkRole(by, role); err != nil {
		return record.User{}, err
	}
	id, err := u.store.CreateUser(ctx, record.NewUser{
		ID: space.NewID(space.PrefixUser), Org: by.Org, Name: called, Role: role, Request: r, By: by.Project,
	})
	if err != nil {
		return record.User{}, err
	}
	return u.store.User(ctx, by.Org, id)
}

// List returns a page of the organisation's users behind a position, newest first, and the position behind the page; the zero one after
// the last page.
func (u *Users) List(ctx context.Context, by record.Key, after record.Position, limit int) ([]record.User, record.Position, error) {
	limit = min(limit, MaxPage)
	rows, err := u.store.Users(ctx, by.Org, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// SetRole changes what a user and their keys may do. Conflict if nobody would be left who may do all.
func (u *Users) SetRole(ctx context.Context, by record.Key, id string, role space.Role) (record.User, error) {
	if space.CheckID(space.PrefixUser, id) != nil {
		return record.User{}, missing()
	}
	if err := checkRole(by, role); err != nil {
		return record.User{}, err
	}
	if err := u.store.SetUserRole(ctx, by.Org, id, role); err != nil {
		return record.User{}, err
	}
	return u.store.User(ctx, by.Org, id)
}

// Remove takes a user out of the organisation and ends their keys. Conflict if nobody would be left who may do all.
func (u *Users) Remove(ctx context.Context, by record.Key, id string) error {
	if space.CheckID(space.PrefixUser, id) != nil {
		return missing()
	}
	return u.store.RemoveUser(ctx, by.Org, id)
}

func checkRole(by record.Key, role space.Role) error {
	if !role.Known() {
		return space.FieldErrorf("role", "%q is not a role: owner, admin, developer or viewer", space.Clip(string(role)))
	}
	if !role.AtMost(by.Role()) {
		return space.Errorf(space.CodeForbidden, "the role %s is more than yours, which is %s", role, by.Role())
	}
	return nil
}

func missing() error { return space.Errorf(space.CodeNotFound, "the user does not exist") }
