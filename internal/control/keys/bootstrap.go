package keys

import (
	"context"
	"fmt"
)

// The organisation and project that every platform has from its start.
const (
	DefaultOrg     = "default"
	DefaultProject = "default"
)

// Projects makes projects.
type Projects interface {
	EnsureProject(ctx context.Context, org, project string) (id string, err error)
}

// BootstrapStore is what Bootstrap needs.
type BootstrapStore interface {
	Store
	Projects
}

// EnsureDefaults makes the default organisation and project unless they exist, and returns the project's id.
func EnsureDefaults(ctx context.Context, store Projects) (project string, err error) {
	project, err = store.EnsureProject(ctx, DefaultOrg, DefaultProject)
	if err != nil {
		return "", fmt.Errorf("ensure the default project: %w", err)
	}
	return project, nil
}

// Bootstrap issues a key of the default project. Whoever can call it administers the machine.
func Bootstrap(ctx context.Context, store BootstrapStore, name string) (Issued, error) {
	project, err := EnsureDefaults(ctx, store)
	if err != nil {
		return Issued{}, err
	}
	return Issue(ctx, store, project, name)
}
