package postgres

import (
	"context"
	"fmt"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// DeleteTemplate writes that a template is to go, with its names, tags and aliases. It returns the node that must act and the ids of the
// operations that this ended: a build that runs fails. Deleting it again succeeds.
//
// Errors: not_found; conflict (sandboxes, or builds, use it).
func (s *Store) DeleteTemplate(ctx context.Context, project, id string) (node string, ended []string, err error) {
	err = s.write(ctx, "delete template", id, func(ctx context.Context, q *db.Queries) error {
		row, err := q.LockTemplate(ctx, db.LockTemplateParams{Project: project, ID: id})
		if err != nil {
			return missing(err, "template")
		}
		node, ended = row.Node, nil
		if row.Deleted {
			return nil
		}
		if err := checkUnused(ctx, q, row); err != nil {
			return err
		}
		ended, err = deleteTemplate(ctx, q, id)
		return err
	})
	return node, ended, err
}

// checkUnused refuses while something that isn't deleted needs the template.
func checkUnused(ctx context.Context, q *db.Queries, t db.LockTemplateRow) error {
	users, err := q.TemplateUsers(ctx, t.ID)
	if err != nil {
		return err
	}
	if by := usedBy(users.Sandboxes, users.Snapshots, users.Builds); by != "" {
		return space.Errorf(space.CodeConflict, "template %s is used by %s: delete what uses it first", t.Name, by)
	}
	return nil
}

// usedBy names what needs a template; empty if nothing does.
func usedBy(sandboxes, snapshots, builds int64) string {
	var by []string
	if sandboxes > 0 {
		by = append(by, counted(sandboxes, "sandbox", "sandboxes"))
	}
	if snapshots > 0 {
		by = append(by, counted(snapshots, "snapshot", "snapshots"))
	}
	if builds > 0 {
		by = append(by, counted(builds, "template that is being built", "templates that are being built"))
	}
	return strings.Join(by, " and ")
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func deleteTemplate(ctx context.Context, q *db.Queries, id string) (ended []string, err error) {
	for _, do := range []func(context.Context, string) error{q.MarkTemplateDeleted, q.DropNames, q.DropAliases, q.DropTags} {
		if err := do(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := emitTemplate(ctx, q, record.EventTemplateDeleted, id, "", nil); err != nil {
		return nil, err
	}
	return endTemplateOperation(ctx, q, id, space.Errorf(space.CodeConflict, "the template was deleted before it was ready"))
}
