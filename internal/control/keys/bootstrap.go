package keys

import (
	"context"
	"fmt"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// The organisation and project that every platform has from its start.
const (
	DefaultOrg     = "default"
	DefaultProject = "default"
)

// Projects finds an organisation's first project, or makes it.
type Projects interface {
	EnsureProject(ctx context.Context, org, project string) (id string, err error)
}

// BootstrapStore is what Bootstrap needs.
type BootstrapStore interface {
	Projects
	CreateKey(ctx context.Context, k record.NewKey) error
}

// EnsureDefaults makes the default organisation unless it exists, and a project of it unless it has one. It returns the oldest one's id,
// whatever it's called by now.
func EnsureDefaults(ctx context.Context, store Projects) (project string, err error) {
	project, err = store.EnsureProject(ctx, DefaultOrg, DefaultProject)
	if err != nil {
		return "", fmt.Errorf("ensure the default project: %w", err)
	}
	return project, nil
}

// Bootstrap issues an owner's key of the default organisation. Whoever can call it administers the machine; it's also the way back for an
// organisation that has locked itself out.
func Bootstrap(ctx context.Context, store BootstrapStore, name string) (Issued, error) {
	project, err := EnsureDefaults(ctx, store)
	if err != nil {
		return Issued{}, err
	}
	key, prefix := generate(FormatSpace)
	out := Issued{ID: space.NewID(space.PrefixKey), Key: key, Prefix: prefix}
	return out, store.CreateKey(ctx, record.NewKey{ID: out.ID, Project: project, Name: name, Prefix: prefix, Hash: hash(key), Role: space.RoleOwner})
}
