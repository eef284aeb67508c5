package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/postgres/db"
)

const (
	// maxTags bounds the tags of a name.
	maxTags = 256
	// maxAliases bounds the aliases of a name.
	maxAliases = 16
)

// SetTemplateTag lets a tag of a template's name mean the template, whatever it meant before. It's quota_exceeded if the name has too many.
func (s *Store) SetTemplateTag(ctx context.Context, project, template, tag string) error {
	return s.write(ctx, "tag template", template, func(ctx context.Context, q *db.Queries) error {
		row, err := lockLive(ctx, q, project, template)
		if err != nil {
			return err
		}
		if err := q.SetTag(ctx, db.SetTagParams{Tag: tag, Template: template}); err != nil {
			return err
		}
		return checkTags(ctx, q, project, row.Name)
	})
}

func checkTags(ctx context.Context, q *db.Queries, project, name string) error {
	n, err := q.CountTags(ctx, db.CountTagsParams{Project: project, Name: name})
	if err == nil && n > maxTags {
		return space.Errorf(space.CodeQuotaExceeded, "template %s has %d tags, which is the limit: remove one first", name, maxTags)
	}
	return err
}

// DeleteTemplateTag removes a tag of a template's name, whichever version it means; not_found if the name hasn't got it.
func (s *Store) DeleteTemplateTag(ctx context.Context, project, template, tag string) error {
	return s.write(ctx, "remove a tag of template", template, func(ctx context.Context, q *db.Queries) error {
		row, err := lockLive(ctx, q, project, template)
		if err != nil {
			return err
		}
		n, err := q.DeleteTag(ctx, db.DeleteTagParams{Project: project, Name: row.Name, Tag: tag})
		if err == nil && n == 0 {
			return space.Errorf(space.CodeNotFound, "the template has no such tag")
		}
		return err
	})
}

// SetTemplateAlias gives a template's name another one. Giving it again succeeds.
//
// Errors: not_found; conflict (it is another template's name or alias); quota_exceeded (the name has too many).
func (s *Store) SetTemplateAlias(ctx context.Context, project, template, alias string) error {
	return s.write(ctx, "give an alias to template", template, func(ctx context.Context, q *db.Queries) error {
		if err := q.LockName(ctx, db.LockNameParams{Project: project, Name: alias}); err != nil {
			return err
		}
		row, err := lockLive(ctx, q, project, template)
		if err != nil {
			return err
		}
		has, err := hasAlias(ctx, q, project, row.Name, alias)
		if err != nil || has {
			return err
		}
		n, err := q.CountAliases(ctx, db.CountAliasesParams{Project: project, Name: row.Name})
		if err != nil {
			return err
		}
		if n >= maxAliases {
			return space.Errorf(space.CodeQuotaExceeded, "template %s has %d aliases, which is the limit: remove one first", row.Name, n)
		}
		return q.InsertAlias(ctx, db.InsertAliasParams{Project: project, Alias: alias, Name: row.Name})
	})
}

// hasAlias reports whether a name has an alias. One that means something else is a conflict.
func hasAlias(ctx context.Context, q *db.Queries, project, name, alias string) (bool, error) {
	of, err := q.AliasOf(ctx, db.AliasOfParams{Project: project, Alias: alias})
	switch {
	case err == nil && of == name:
		return true, nil
	case err == nil:
		return false, space.Errorf(space.CodeConflict, "%s is an alias of template %s: remove it there first", alias, of)
	case !errors.Is(err, pgx.ErrNoRows):
		return false, err
	}
	used, err := q.NameInUse(ctx, db.NameInUseParams{Project: project, Name: alias})
	if err == nil && used {
		return false, space.Errorf(space.CodeConflict, "%s is the name of a template: choose another alias", alias)
	}
	return false, err
}

// DeleteTemplateAlias removes an alias of a template's name; not_found if the name hasn't got it.
func (s *Store) DeleteTemplateAlias(ctx context.Context, project, template, alias string) error {
	return s.write(ctx, "remove an alias of template", template, func(ctx context.Context, q *db.Queries) error {
		row, err := lockLive(ctx, q, project, template)
		if err != nil {
			return err
		}
		n, err := q.DeleteAlias(ctx, db.DeleteAliasParams{Project: project, Name: row.Name, Alias: alias})
		if err == nil && n == 0 {
			return space.Errorf(space.CodeNotFound, "the template has no such alias")
		}
		return err
	})
}

// lockLive locks a project's template; not_found if it has none, or it was deleted or replaced.
func lockLive(ctx context.Context, q *db.Queries, project, template string) (db.LockTemplateRow, error) {
	row, err := q.LockTemplate(ctx, db.LockTemplateParams{Project: project, ID: template})
	if err == nil && (row.Deleted || row.Superseded) {
		err = pgx.ErrNoRows
	}
	return row, missing(err, "template")
}
