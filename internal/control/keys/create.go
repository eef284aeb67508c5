package keys

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/name"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// maxName bounds a key's name, in characters.
	maxName = 64
	// maxLife bounds how far ahead a key may expire.
	maxLife = 10 * 365 * 24 * time.Hour
	// defaultRole is what a key may do when nobody says.
	defaultRole = space.RoleDeveloper
)

// Create is what a client asks for.
type Create struct {
	Name      string
	Role      *space.Role // nil: developer, or less if the caller or the user may less
	Project   *string     // nil: the caller's
	User      *string     // nil: the caller's, if it has one
	ExpiresAt *time.Time  // nil: never
	Format    *Format     // nil: space
}

// Issued is a new key. It's shown once.
type Issued struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Prefix string `json:"prefix"` // its visible beginning
}

// Create makes a key and returns its record and the key itself. Forbidden if it would do more than the caller may.
func (k *Keys) Create(ctx context.Context, by record.Key, c Create) (record.Key, string, error) {
	n, err := k.plan(ctx, by, c)
	if err != nil {
		return record.Key{}, "", err
	}
	secret, prefix := generate(or(c.Format, FormatSpace))
	n.ID, n.Prefix, n.Hash = space.NewID(space.PrefixKey), prefix, hash(secret)
	if err := k.store.CreateKey(ctx, n); err != nil {
		return record.Key{}, "", err
	}
	made, err := k.store.Key(ctx, record.KeyScope{Org: by.Org}, n.ID)
	return made, secret, err
}

// plan decides what the key will be.
func (k *Keys) plan(ctx context.Context, by record.Key, c Create) (record.NewKey, error) {
	if err := c.check(); err != nil {
		return record.NewKey{}, err
	}
	project, err := k.project(ctx, by, c.Project)
	if err != nil {
		return record.NewKey{}, err
	}
	holder, most, err := k.holder(ctx, by, c.User)
	if err != nil {
		return record.NewKey{}, err
	}
	role := or(c.Role, defaultRole.Lower(most))
	if !role.AtMost(most) {
		return record.NewKey{}, tooMuch(role, most)
	}
	return record.NewKey{Project: project, Name: c.Name, Role: role, Holder: holder, ExpiresAt: or(c.ExpiresAt, time.Time{})}, nil
}

func tooMuch(role, most space.Role) error {
	err := space.Errorf(space.CodeForbidden, "the role %s is more than %s, which is the most that you can give to this key", role, most)
	err.Field = "role"
	return err
}

// check refuses a request that is wrong whoever asks.
func (c Create) check() error {
	if err := name.Check("name", c.Name, maxName); err != nil {
		return err
	}
	switch {
	case c.Role != nil && !c.Role.Known():
		return space.FieldErrorf("role", "%q is not a role: owner, admin, developer or viewer", space.Clip(string(*c.Role)))
	case c.Format != nil && *c.Format != FormatSpace && *c.Format != FormatE2B:
		return space.FieldErrorf("format", "%q is not a format: space or e2b", space.Clip(string(*c.Format)))
	case c.ExpiresAt != nil && !c.ExpiresAt.After(time.Now()):
		return space.FieldErrorf("expires_at", "is in the past")
	case c.ExpiresAt != nil && c.ExpiresAt.After(time.Now().Add(maxLife)):
		return space.FieldErrorf("expires_at", "is more than 10 years ahead: leave it out for a key that doesn't expire")
	}
	return nil
}

// project is where the key will be. Whether another project exists is told to those only who may see it.
func (k *Keys) project(ctx context.Context, by record.Key, id *string) (string, error) {
	if id == nil || *id == by.Project {
		return by.Project, nil
	}
	if !by.Role().May(space.PermissionAllProjects) {
		err := space.Errorf(space.CodeForbidden, "only an owner makes keys of another project")
		err.Field = "project"
		return "", err
	}
	if space.CheckID(space.PrefixProject, *id) != nil {
		return "", space.Errorf(space.CodeNotFound, "the project does not exist")
	}
	p, err := k.store.Project(ctx, by.Org, *id)
	return p.ID, err
}

// holder is whose key it will be, with the most that it may do. A caller's key makes keys of the same user: who removes the user ends
// them all.
func (k *Keys) holder(ctx context.Context, by record.Key, id *string) (string, space.Role, error) {
	if id == nil || *id == by.Holder {
		return by.Holder, by.Role(), nil
	}
	if space.CheckID(space.PrefixUser, *id) != nil {
		return "", "", space.Errorf(space.CodeNotFound, "the user does not exist")
	}
	u, err := k.store.User(ctx, by.Org, *id)
	return u.ID, u.Role.Lower(by.Role()), err
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
