package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxProjects bounds the projects of one organisation.
const maxProjects = 1000

// EnsureProject returns the id of an organisation's oldest project. An organisation that isn't there is made, and one without a project
// gets one of that name.
func (s *Store) EnsureProject(ctx context.Context, org, project string) (id string, err error) {
	err = s.write(ctx, "ensure a project of", org, func(ctx context.Context, q *db.Queries) error {
		if err := q.InsertOrg(ctx, db.InsertOrgParams{ID: space.NewID(space.PrefixOrg), Name: org}); err != nil {
			return err
		}
		orgID, err := q.LockOrgByName(ctx, org)
		if err != nil {
			return err
		}
		id, err = q.OldestProject(ctx, orgID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		id = space.NewID(space.PrefixProject)
		_, err = q.CreateProject(ctx, db.CreateProjectParams{ID: id, Org: orgID, Name: project})
		return err
	})
	return id, err
}

// Org returns an organisation.
func (s *Store) Org(ctx context.Context, id string) (record.Org, error) {
	var out record.Org
	err := s.read(ctx, "read organisation "+id, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Org(ctx, id)
		out = record.Org{ID: r.ID, Name: r.Name}
		return missing(err, "organisation")
	})
	return out, err
}

// CreateProject makes a project and returns its id: an earlier one if the request's Idempotency-Key has made it already. Conflict if
// the name is taken.
func (s *Store) CreateProject(ctx context.Context, n record.NewProject) (id string, err error) {
	err = s.write(ctx, "create project", n.Name, func(ctx context.Context, q *db.Queries) error {
		id, err = claim(ctx, q, n.By, n.Request, n.ID)
		if err != nil || id != n.ID {
			return err
		}
		return insertProject(ctx, q, n)
	})
	return id, err
}

func insertProject(ctx context.Context, q *db.Queries, n record.NewProject) error {
	if _, err := q.LockOrg(ctx, n.Org); err != nil {
		return missing(err, "organisation")
	}
	count, err := q.CountProjects(ctx, n.Org)
	if err != nil {
		return err
	}
	if count >= maxProjects {
		return space.Errorf(space.CodeQuotaExceeded, "the organisation has %d projects, which is the limit: delete some", count)
	}
	made, err := q.CreateProject(ctx, db.CreateProjectParams{
		ID: n.ID, Org: n.Org, Name: n.Name, QuotaSandboxes: n.Quota.Sandboxes, QuotaVcpus: n.Quota.VCPUs,
		QuotaMemoryBytes: n.Quota.MemoryBytes, QuotaDiskBytes: n.Quota.DiskBytes,
	})
	if err == nil && made == 0 {
		return nameTaken("project", n.Name)
	}
	return err
}

func nameTaken(what, name string) error {
	err := space.Errorf(space.CodeConflict, "there is a %s called %s already: choose another name", what, space.Clip(name))
	err.Field = "name"
	return err
}

// Project returns a project of an organisation with what is used of its quota; not_found if it has none of that id.
func (s *Store) Project(ctx context.Context, org, id string) (record.Project, error) {
	var out record.Project
	err := s.read(ctx, "read project "+id, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Project(ctx, db.ProjectParams{Org: org, ID: id})
		out = project(r)
		return missing(err, "project")
	})
	return out, err
}

// Projects returns up to limit projects of an organisation behind a position, newest first.
func (s *Store) Projects(ctx context.Context, org string, after record.Position, limit int) ([]record.Project, error) {
	var out []record.Project
	err := s.read(ctx, "list projects", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Projects(ctx, db.ProjectsParams{Org: org, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, project(db.ProjectRow(r)))
		}
		return err
	})
	return out, err
}

func project(r db.ProjectRow) record.Project {
	return record.Project{
		ID: r.ID, Org: r.Org, Name: r.Name, CreatedAt: r.CreatedAt,
		Quota: record.Quota{Sandboxes: r.QuotaSandboxes, VCPUs: r.QuotaVcpus, MemoryBytes: r.QuotaMemoryBytes, DiskBytes: r.QuotaDiskBytes},
		Used:  record.Usage{Sandboxes: r.Sandboxes, VCPUs: r.Vcpus, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes},

		UploadBytes: r.UploadBytes,
	}
}

// UpdateProject changes a project. A quota may be less than what is used: nothing ends, and nothing more begins.
func (s *Store) UpdateProject(ctx context.Context, org, id string, c record.ProjectChange) error {
	return s.write(ctx, "update project", id, func(ctx context.Context, q *db.Queries) error {
		if _, err := q.LockOrg(ctx, org); err != nil {
			return missing(err, "project")
		}
		if _, err := q.LockProject(ctx, db.LockProjectParams{Org: org, ID: id}); err != nil {
			return missing(err, "project")
		}
		if c.Quota != nil {
			if err := q.SetQuota(ctx, db.SetQuotaParams{
				ID: id, QuotaSandboxes: c.Quota.Sandboxes, QuotaVcpus: c.Quota.VCPUs, QuotaMemoryBytes: c.Quota.MemoryBytes, QuotaDiskBytes: c.Quota.DiskBytes,
			}); err != nil {
				return err
			}
		}
		return rename(ctx, q, org, id, c.Name)
	})
}

func rename(ctx context.Context, q *db.Queries, org, id string, name *string) error {
	if name == nil {
		return nil
	}
	taken, err := q.ProjectNameTaken(ctx, db.ProjectNameTakenParams{Org: org, ID: id, Name: *name})
	if err != nil {
		return err
	}
	if taken {
		return nameTaken("project", *name)
	}
	return q.RenameProject(ctx, db.RenameProjectParams{ID: id, Name: *name})
}

// DeleteProject deletes a project without sandboxes, with its templates and snapshots, and revokes its keys. Conflict if it has sandboxes that weren't told to go, or
// if sandboxes or builds of other projects use its templates.
func (s *Store) DeleteProject(ctx context.Context, org, id string) error {
	return s.writeOrg(ctx, "delete project", id, org, func(ctx context.Context, q *db.Queries) error {
		if _, err := q.LockProject(ctx, db.LockProjectParams{Org: org, ID: id}); err != nil { // no sandbox is made while it's held
			return missing(err, "project")
		}
		used, err := q.Usage(ctx, id)
		if err != nil {
			return err
		}
		if used.Sandboxes > 0 {
			return space.Errorf(space.CodeConflict, "the project has %d sandboxes: delete them first", used.Sandboxes)
		}
		if err := q.HoldSharedTemplates(ctx, id); err != nil {
			return err
		}
		foreign, err := q.ForeignUsers(ctx, id)
		if err != nil {
			return err
		}
		if by := usedBy(foreign.Sandboxes, foreign.Snapshots, foreign.Builds); by != "" {
			return space.Errorf(space.CodeConflict, "its templates are used by %s of other projects: delete those first", by)
		}
		if err := q.DeleteProjectSnapshots(ctx, id); err != nil {
			return err
		}
		if err := deleteTemplatesOf(ctx, q, id); err != nil {
			return err
		}
		if _, err := q.RevokeProjectKeys(ctx, id); err != nil {
			return err
		}
		return q.DeleteProject(ctx, id)
	})
}

// deleteTemplatesOf deletes the templates of a project, which no sandbox uses any more.
func deleteTemplatesOf(ctx context.Context, q *db.Queries, project string) error {
	ids, err := q.TemplatesOfProject(ctx, project)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := deleteTemplate(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}
