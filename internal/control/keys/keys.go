// Package keys issues API keys, recognizes them and ends them. The store has a key's visible beginning and the SHA-256 of the whole,
// never the key: it's shown once, and a repeated request can't show it again.
//
// A key may do what its role may, and never more than its user may; nobody can make a key that may do more than they. Revoking works at
// once: each request asks the store, and what a request holds open is ended when the key's id is rung, or at the next look.
package keys

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// Store keeps keys.
type Store interface {
	Recognizer
	CreateKey(ctx context.Context, k record.NewKey) error
	Key(ctx context.Context, in record.KeyScope, id string) (record.Key, error)
	Keys(ctx context.Context, in record.KeyScope, after record.Position, limit int) ([]record.Key, error)
	RevokeKey(ctx context.Context, in record.KeyScope, id string) error
	Project(ctx context.Context, org, id string) (record.Project, error)
	User(ctx context.Context, org, id string) (record.User, error)
}

// MaxPage bounds a page of the list.
const MaxPage = 100

// Keys are the keys of all organisations.
type Keys struct {
	store Store
	bell  *wake.Bell
}

// New returns the keys in a store. A key that is revoked is rung by its id.
func New(store Store, bell *wake.Bell) *Keys { return &Keys{store: store, bell: bell} }

// List returns a page of the keys that a caller may see behind a position, newest first, and the position behind the page; the zero one
// after the last page.
func (k *Keys) List(ctx context.Context, by record.Key, after record.Position, limit int) ([]record.Key, record.Position, error) {
	limit = min(limit, MaxPage)
	rows, err := k.store.Keys(ctx, scope(by), after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// Revoke ends a key at once; repeated, it has no effect. Forbidden for a key that was made for more than the caller may, conflict for
// the last one that may do all in the organisation.
func (k *Keys) Revoke(ctx context.Context, by record.Key, id string) error {
	if space.CheckID(space.PrefixKey, id) != nil {
		return space.Errorf(space.CodeNotFound, "the key does not exist")
	}
	it, err := k.store.Key(ctx, scope(by), id)
	if err != nil {
		return err
	}
	if !it.Granted.AtMost(by.Role()) {
		return space.Errorf(space.CodeForbidden, "the key has the role %s, yours is %s: ask an owner", it.Granted, by.Role())
	}
	if err := k.store.RevokeKey(ctx, scope(by), id); err != nil {
		return err
	}
	k.bell.Ring(id)
	return nil
}

// scope is which keys a caller may see.
func scope(by record.Key) record.KeyScope {
	if by.Role().May(space.PermissionAllProjects) {
		return record.KeyScope{Org: by.Org}
	}
	return record.KeyScope{Org: by.Org, Project: by.Project}
}

// touchEvery is how exactly it is known when a key was last used.
const touchEvery = time.Hour
