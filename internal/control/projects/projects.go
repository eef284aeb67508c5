// Package projects has what an organisation's owners can do with its projects, and what the others can see of their own.
package projects

import (
	"context"
	"regexp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// MaxPage bounds a page of the list.
const MaxPage = 100

// Store keeps projects.
type Store interface {
	Org(ctx context.Context, id string) (record.Org, error)
	CreateProject(ctx context.Context, n record.NewProject) (id string, err error)
	Project(ctx context.Context, org, id string) (record.Project, error)
	Projects(ctx context.Context, org string, after record.Position, limit int) ([]record.Project, error)
	UpdateProject(ctx context.Context, org, id string, c record.ProjectChange) error
	DeleteProject(ctx context.Context, org, id string) error
}

// Projects are the projects of all organisations.
type Projects struct{ store Store }

// New returns the projects in a store.
func New(store Store) *Projects { return &Projects{store: store} }

// Org returns a caller's organisation.
func (p *Projects) Org(ctx context.Context, by record.Key) (record.Org, error) {
	return p.store.Org(ctx, by.Org)
}

// Get returns a project: to an owner any of the organisation, to others their own.
func (p *Projects) Get(ctx context.Context, by record.Key, id string) (record.Project, error) {
	if space.CheckID(space.PrefixProject, id) != nil || id != by.Project && !by.Role().May(space.PermissionAllProjects) {
		return record.Project{}, missing()
	}
	return p.store.Project(ctx, by.Org, id)
}

// List returns a page of the projects that a caller may see behind a position, newest first, and the position behind the page; the zero
// one after the last page.
func (p *Projects) List(ctx context.Context, by record.Key, after record.Position, limit int) ([]record.Project, record.Position, error) {
	if !by.Role().May(space.PermissionAllProjects) {
		return p.own(ctx, by, after)
	}
	limit = min(limit, MaxPage)
	rows, err := p.store.Projects(ctx, by.Org, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// own is the list of who sees one project: there's nothing behind it.
func (p *Projects) own(ctx context.Context, by record.Key, after record.Position) ([]record.Project, record.Position, error) {
	if after.ID != "" {
		return nil, record.Position{}, nil
	}
	one, err := p.store.Project(ctx, by.Org, by.Project)
	return []record.Project{one}, record.Position{}, err
}

// Create makes a project of the caller's organisation. The same request with the same Idempotency-Key returns the same one.
func (p *Projects) Create(ctx context.Context, by record.Key, name string, q record.Quota, r record.Request) (record.Project, error) {
	if err := checkName(name); err != nil {
		return record.Project{}, err
	}
	if err := checkQuota(q); err != nil {
		return record.Project{}, err
	}
	id, err := p.store.CreateProject(ctx, record.NewProject{
		ID: space.NewID(space.PrefixProject), Org: by.Org, Name: name, Quota: q, Request: r, By: by.Project,
	})
	if err != nil {
		return record.Project{}, err
	}
	return p.store.Project(ctx, by.Org, id)
}

// Update changes a project's name, or its quota as a whole.
func (p *Projects) Update(ctx context.Context, by record.Key, id string, c record.ProjectChange) (record.Project, error) {
	if space.CheckID(space.PrefixProject, id) != nil {
		return record.Project{}, missing()
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return record.Project{}, err
		}
	}
	if c.Quota != nil {
		if err := checkQuota(*c.Quota); err != nil {
			return record.Project{}, err
		}
	}
	if err := p.store.UpdateProject(ctx, by.Org, id, c); err != nil {
		return record.Project{}, err
	}
	return p.store.Project(ctx, by.Org, id)
}

// Delete deletes a project without sandboxes and ends its keys. The caller's own project stays: the key that asks would end with it.
func (p *Projects) Delete(ctx context.Context, by record.Key, id string) error {
	if space.CheckID(space.PrefixProject, id) != nil {
		return missing()
	}
	if id == by.Project {
		return space.Errorf(space.CodeConflict, "the key that you use belongs to the project and would end with it: use a key of another project")
	}
	return p.store.DeleteProject(ctx, by.Org, id)
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func checkName(s string) error {
	if !nameRE.MatchString(s) {
		return space.FieldErrorf("name", "%q is not a project's name: up to 63 of a-z, 0-9 and -, and not - first", space.Clip(s))
	}
	return nil
}

// The greatest quotas, as openapi.yaml states them.
const (
	maxCount = 1_000_000
	maxMiB   = 1_000_000_000
)

func checkQuota(q record.Quota) error {
	for _, x := range []struct {
		field      string
		value      *int64
		size, most int64
	}{
		{"quota.sandboxes", q.Sandboxes, 1, maxCount}, {"quota.vcpus", q.VCPUs, 1, maxCount},
		{"quota.memory_mb", q.MemoryBytes, record.MiB, maxMiB}, {"quota.disk_mb", q.DiskBytes, record.MiB, maxMiB},
	} {
		if x.value != nil && (*x.value < 0 || *x.value > x.most*x.size) {
			return space.FieldErrorf(x.field, "must be 0 to %d; leave it out for no limit", x.most)
		}
	}
	return nil
}

func missing() error { return space.Errorf(space.CodeNotFound, "the project does not exist") }
