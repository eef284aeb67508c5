package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// EnsureProject returns the id of a project of an organisation, both by name; what is missing is made.
func (s *Store) EnsureProject(ctx context.Context, org, project string) (id string, err error) {
	err = s.write(ctx, "ensure project "+project, func(ctx context.Context, q *db.Queries) error {
		if err := q.InsertOrg(ctx, db.InsertOrgParams{ID: space.NewID(space.PrefixOrg), Name: org}); err != nil {
			return err
		}
		if err := q.InsertProject(ctx, db.InsertProjectParams{ID: space.NewID(space.PrefixProject), Name: project, OrgName: org}); err != nil {
			return err
		}
		id, err = q.ProjectByName(ctx, db.ProjectByNameParams{OrgName: org, Name: project})
		return err
	})
	return id, err
}

// CreateKey stores a key.
func (s *Store) CreateKey(ctx context.Context, k record.NewKey) error {
	return s.write(ctx, "create key "+k.ID, func(ctx context.Context, q *db.Queries) error {
		return q.InsertKey(ctx, db.InsertKeyParams{ID: k.ID, Project: k.Project, Name: k.Name, Prefix: k.Prefix, SecretHash: k.Hash[:]})
	})
}

// Key returns a key by its visible prefix; not_found if there's none.
func (s *Store) Key(ctx context.Context, prefix string) (record.Key, error) {
	var out record.Key
	err := s.read(ctx, "read a key", func(ctx context.Context, q *db.Queries) error {
		r, err := q.KeyByPrefix(ctx, prefix)
		if errors.Is(err, pgx.ErrNoRows) {
			return space.Errorf(space.CodeNotFound, "the key does not exist")
		}
		if err != nil {
			return err
		}
		out = record.Key{ID: r.ID, Project: r.Project, Prefix: r.Prefix, Hash: [32]byte(r.SecretHash), Revoked: r.RevokedAt != nil}
		if r.LastUsedAt != nil {
			out.LastUsedAt = *r.LastUsedAt
		}
		return nil
	})
	return out, err
}

// TouchKey writes that a key was used, at most once an hour.
func (s *Store) TouchKey(ctx context.Context, id string) error {
	return s.write(ctx, "touch key "+id, func(ctx context.Context, q *db.Queries) error { return q.TouchKey(ctx, id) })
}

// RevokeKey ends a project's key at once; not_found if it has no such key that is valid.
func (s *Store) RevokeKey(ctx context.Context, project, id string) error {
	return s.write(ctx, "revoke key "+id, func(ctx context.Context, q *db.Queries) error {
		n, err := q.RevokeKey(ctx, db.RevokeKeyParams{ID: id, Project: project})
		if err == nil && n == 0 {
			return space.Errorf(space.CodeNotFound, "key %s does not exist or is revoked", space.Clip(id))
		}
		return err
	})
}
