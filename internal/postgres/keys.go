package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxKeys bounds the valid keys of one project.
const maxKeys = 1000

// CreateKey stores a key. Its project must be there, and so must its user, if it has one.
func (s *Store) CreateKey(ctx context.Context, k record.NewKey) error {
	return s.write(ctx, "create key", k.ID, func(ctx context.Context, q *db.Queries) error {
		org, err := q.LockOrgOf(ctx, k.Project)
		if err != nil {
			return missing(err, "project")
		}
		if err := checkKeyPlace(ctx, q, org, k); err != nil {
			return err
		}
		if err := q.InsertKey(ctx, db.InsertKeyParams{
			ID: k.ID, Project: k.Project, Name: k.Name, Prefix: k.Prefix, SecretHash: k.Hash[:], Role: string(k.Role),
			Holder: orNull(k.Holder), ExpiresAt: timeOrNull(k.ExpiresAt),
		}); err != nil {
			return err
		}
		return emitKey(ctx, q, record.EventKeyCreated, k.Project, k.ID, map[string]any{"name": k.Name, "role": string(k.Role), "prefix": k.Prefix})
	})
}

func checkKeyPlace(ctx context.Context, q *db.Queries, org string, k record.NewKey) error {
	if _, err := q.LockProject(ctx, db.LockProjectParams{Org: org, ID: k.Project}); err != nil {
		return missing(err, "project")
	}
	if k.Holder != "" {
		if _, err := q.User(ctx, db.UserParams{Org: org, ID: k.Holder}); err != nil {
			return missing(err, "user")
		}
	}
	n, err := q.CountKeys(ctx, k.Project)
	if err == nil && n >= maxKeys {
		return space.Errorf(space.CodeQuotaExceeded, "the project has %d valid keys, which is the limit: revoke some", n)
	}
	return err
}

// KeyByHash returns a key by the hash of the whole; not_found if there's none. What is asked for with the same key at the same time reads it once.
func (s *Store) KeyByHash(ctx context.Context, hash record.KeyHash) (record.Key, error) {
	return s.keys.find(ctx, string(hash[:]))
}

func readKey(ctx context.Context, q *db.Queries, hashes []string) (map[string]record.Key, error) {
	r, err := q.KeyByHash(ctx, []byte(hashes[0])) // they're the same
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return map[string]record.Key{hashes[0]: key(db.KeyByIDRow(r))}, err
}

// Key returns a key by its id; not_found if there's none in the scope.
func (s *Store) Key(ctx context.Context, in record.KeyScope, id string) (record.Key, error) {
	var out record.Key
	err := s.read(ctx, "read a key", func(ctx context.Context, q *db.Queries) error {
		r, err := q.KeyByID(ctx, db.KeyByIDParams{Org: in.Org, Project: in.Project, ID: id})
		out = key(r)
		return missing(err, "key")
	})
	return out, err
}

// Keys returns up to limit keys behind a position, newest first. Those that are revoked or expired are among them for a while.
func (s *Store) Keys(ctx context.Context, in record.KeyScope, after record.Position, limit int) ([]record.Key, error) {
	var out []record.Key
	err := s.read(ctx, "list keys", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Keys(ctx, db.KeysParams{Org: in.Org, Project: in.Project, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, key(db.KeyByIDRow(r)))
		}
		return err
	})
	return out, err
}

// TouchKey writes that a key was used, at most once an hour.
func (s *Store) TouchKey(ctx context.Context, id string) error {
	return s.write(ctx, "touch key", id, func(ctx context.Context, q *db.Queries) error { return q.TouchKey(ctx, id) })
}

// RevokeKey ends a key at once. One that is revoked stays so. Conflict if no key would be left that may do all in the organisation.
func (s *Store) RevokeKey(ctx context.Context, in record.KeyScope, id string) error {
	return s.writeOrg(ctx, "revoke key", id, in.Org, func(ctx context.Context, q *db.Queries) error {
		if _, err := q.KeyByID(ctx, db.KeyByIDParams{Org: in.Org, Project: in.Project, ID: id}); err != nil {
			return missing(err, "key")
		}
		rows, err := q.RevokeKey(ctx, id)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := emitKey(ctx, q, record.EventKeyRevoked, r.Project, r.ID, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeOrg runs a transaction that changes who may do what in an organisation; one at a time does. It's undone, with a conflict, if it
// would leave the organisation without a valid key of an owner.
func (s *Store) writeOrg(ctx context.Context, doing, what, org string, do func(context.Context, *db.Queries) error) error {
	return s.write(ctx, doing, what, func(ctx context.Context, q *db.Queries) error {
		if _, err := q.LockOrg(ctx, org); err != nil {
			return missing(err, "organisation")
		}
		before, err := q.CountOwnerKeys(ctx, org)
		if err != nil {
			return err
		}
		if err := do(ctx, q); err != nil {
			return err
		}
		after, err := q.CountOwnerKeys(ctx, org)
		if err == nil && before > 0 && after == 0 {
			return space.Errorf(space.CodeConflict, "it would leave the organisation without a valid key of an owner: create another one first")
		}
		return err
	})
}

func key(r db.KeyByIDRow) record.Key {
	return record.Key{
		ID: r.ID, Name: r.Name, Project: r.Project, Org: r.Org, Prefix: r.Prefix, Granted: space.Role(r.Role), Holder: text(r.Holder),
		HolderRole: space.Role(text(r.HolderRole)), Valid: r.Valid, CreatedAt: r.CreatedAt,
		ExpiresAt: orZero(r.ExpiresAt), RevokedAt: orZero(r.RevokedAt), LastUsedAt: orZero(r.LastUsedAt),
	}
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// beforeAt is the time of a position in a list that is ordered newest first; null at its beginning.
func beforeAt(p record.Position) *time.Time {
	if p.ID == "" {
		return nil
	}
	return &p.CreatedAt
}
