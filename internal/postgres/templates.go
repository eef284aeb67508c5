package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// BuildTemplate writes the intent of a template, in one transaction, and returns its operation. One of that name that is ready or being
// built stays and its operation is returned; one whose build failed gives its name up.
func (s *Store) BuildTemplate(ctx context.Context, n record.NewTemplate) (operation string, err error) {
	err = s.write(ctx, "build template "+n.Name, func(ctx context.Context, q *db.Queries) error {
		operation, err = claim(ctx, q, n.Project, n.Request, n.Operation)
		if err != nil || operation != n.Operation {
			return err
		}
		operation, err = ensureTemplate(ctx, q, n)
		if err != nil || n.Request.Key == "" || operation == n.Operation {
			return err
		}
		return q.RepointIdempotencyKey(ctx, db.RepointIdempotencyKeyParams{Project: n.Project, Key: n.Request.Key, Resource: operation})
	})
	return operation, err
}

// ensureTemplate inserts the template unless a usable one has its name: then it returns that one's operation.
func ensureTemplate(ctx context.Context, q *db.Queries, n record.NewTemplate) (string, error) {
	if err := supersedeFailed(ctx, q, n); err != nil {
		return "", err
	}
	inserted, err := q.InsertTemplate(ctx, db.InsertTemplateParams{
		ID: n.ID, Project: n.Project, Name: n.Name, Recipe: n.Recipe, Node: n.Node,
		Vcpus: int32(n.Shape.VCPUs), MemoryBytes: int64(n.Shape.MemoryBytes), DiskBytes: int64(n.Shape.DiskBytes),
	})
	if err != nil {
		return "", err
	}
	if inserted == 1 {
		if err := q.InsertTemplateOperation(ctx, db.InsertTemplateOperationParams{ID: n.Operation, Project: n.Project, Template: n.ID}); err != nil {
			return "", err
		}
		return n.Operation, emitTemplate(ctx, q, record.EventTemplateCreated, n.ID, n.Operation, map[string]any{"name": n.Name})
	}
	existing, err := q.LockTemplate(ctx, db.LockTemplateParams{Project: n.Project, Name: n.Name})
	if err != nil {
		return "", err
	}
	return q.TemplateOperation(ctx, existing.ID)
}

func supersedeFailed(ctx context.Context, q *db.Queries, n record.NewTemplate) error {
	existing, err := q.LockTemplate(ctx, db.LockTemplateParams{Project: n.Project, Name: n.Name})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil || existing.State != string(record.TemplateFailed) {
		return err
	}
	return q.SupersedeTemplate(ctx, existing.ID)
}

// Template returns a project's template by its name or id; not_found if it has none.
func (s *Store) Template(ctx context.Context, project, nameOrID string) (record.Template, error) {
	var out record.Template
	err := s.read(ctx, "read template", func(ctx context.Context, q *db.Queries) error {
		row, err := q.Template(ctx, db.TemplateParams{Project: project, NameOrID: nameOrID})
		if err != nil {
			return missing(err, "template")
		}
		out = template(row)
		return nil
	})
	return out, err
}

// Templates returns up to limit templates of a project behind a position, newest first.
func (s *Store) Templates(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, error) {
	var out []record.Template
	err := s.read(ctx, "list templates", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Templates(ctx, db.TemplatesParams{Project: project, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)})
		for _, row := range rows {
			out = append(out, template(db.TemplateRow(row)))
		}
		return err
	})
	return out, err
}

func template(r db.TemplateRow) record.Template {
	out := record.Template{
		ID: r.ID, Project: r.Project, Name: r.Name, Recipe: r.Recipe, Node: r.Node, Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes),
		State: record.TemplateBuilding, CreatedAt: r.CreatedAt,
	}
	if r.State == nil {
		return out
	}
	out.State = record.TemplateState(*r.State)
	out.Digest, out.Progress = text(r.Digest), text(r.Progress)
	out.Error = failure(r.ErrorCode, r.ErrorMessage)
	if out.State == record.TemplateReady {
		out.Shape = shape(*r.ActualVcpus, *r.ActualMemoryBytes, *r.ActualDiskBytes)
	}
	return out
}
