package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Template returns the template that a reference means in a project, its own or a shared one; not_found if there's none. One that was replaced after it failed can
// be read by its id for a day.
func (s *Store) Template(ctx context.Context, project string, ref record.TemplateRef) (record.Template, error) {
	var out record.Template
	err := s.read(ctx, "read template", func(ctx context.Context, q *db.Queries) error {
		row, err := q.Template(ctx, db.TemplateParams{Project: project, ID: ref.ID, Name: ref.Name, Tag: ref.Tag})
		if err != nil {
			return missing(err, "template")
		}
		out, err = s.template(row)
		return err
	})
	return out, err
}

// Templates returns up to limit of a project's templates, and of those that are shared with it, behind a position, newest first.
func (s *Store) Templates(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, error) {
	p := db.TemplatesParams{Project: project, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)}
	var out []record.Template
	err := s.read(ctx, "list templates", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Templates(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range rows {
			one, err := s.template(db.TemplateRow(row))
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

func (s *Store) template(r db.TemplateRow) (record.Template, error) {
	out := record.Template{
		ID: r.ID, Project: r.Project, Name: r.Name, Named: r.Named, Tags: r.Tags, Aliases: r.Aliases, Source: r.Source, Shared: r.Shared, Node: r.Node,
		Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes), State: record.TemplateBuilding, CreatedAt: r.CreatedAt,
	}
	if len(r.Lifecycle) > 0 {
		if err := json.Unmarshal(r.Lifecycle, &out.Lifecycle); err != nil {
			return out, fmt.Errorf("read the lifecycle of template %s: %w", r.ID, err)
		}
	}
	if r.State == nil {
		return out, nil
	}
	out.State = record.TemplateState(*r.State)
	out.Digest, out.Progress = text(r.Digest), text(r.Progress)
	out.Error, out.FailedStep, out.Asked = fieldFailure(r.ErrorCode, r.ErrorMessage, r.ErrorField), int(*r.FailedStep), text(r.Request)
	if out.State != record.TemplateReady {
		return out, nil
	}
	out.Shape = shape(*r.ActualVcpus, *r.ActualMemoryBytes, *r.ActualDiskBytes)
	env, err := s.openEnv(r.EnvSealed, templateEnvContext(r.ID))
	out.Defaults = record.Defaults{Env: env, User: text(r.RunAs), Workdir: text(r.Workdir)}
	return out, err
}

// BuildOrder returns what a template is to be built from; not_found if it isn't wanted any more.
func (s *Store) BuildOrder(ctx context.Context, template string) (record.BuildOrder, error) {
	out := record.BuildOrder{Template: template}
	err := s.read(ctx, "read what template "+template+" is made of", func(ctx context.Context, q *db.Queries) error {
		r, err := q.TemplateBuild(ctx, template)
		if err != nil {
			return missing(err, "template")
		}
		out.Project, out.Shape = r.Project, shape(r.Vcpus, r.MemoryBytes, r.DiskBytes)
		if r.Recipe != nil {
			out.Build.Source.Recipe = *r.Recipe
			return nil
		}
		if out.Build, err = s.openBuild(template, r.BuildSealed); err != nil {
			return err
		}
		out.Auth, err = s.openAuth(template, r.RegistryAuthSealed)
		return err
	})
	return out, err
}
