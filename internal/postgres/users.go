package postgres

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxUsers bounds the users of one organisation.
const maxUsers = 10_000

// CreateUser adds a user and returns their id: an earlier one if the request's Idempotency-Key has made it already. Conflict if the
// name is taken.
func (s *Store) CreateUser(ctx context.Context, n record.NewUser) (id string, err error) {
	err = s.write(ctx, "create user", n.ID, func(ctx context.Context, q *db.Queries) error {
		id, err = claim(ctx, q, n.By, n.Request, n.ID)
		if err != nil || id != n.ID {
			return err
		}
		return insertUser(ctx, q, n)
	})
	return id, err
}

func insertUser(ctx context.Context, q *db.Queries, n record.NewUser) error {
	if _, err := q.LockOrg(ctx, n.Org); err != nil {
		return missing(err, "organisation")
	}
	count, err := q.CountUsers(ctx, n.Org)
	if err != nil {
		return err
	}
	if count >= maxUsers {
		return space.Errorf(space.CodeQuotaExceeded, "the organisation has %d users, which is the limit: remove some", count)
	}
	made, err := q.CreateUser(ctx, db.CreateUserParams{ID: n.ID, Org: n.Org, Name: n.Name, Role: string(n.Role)})
	if err == nil && made == 0 {
		return nameTaken("user", n.Name)
	}
	return err
}

// User returns a user of an organisation; not_found if it has none of that id.
func (s *Store) User(ctx context.Context, org, id string) (record.User, error) {
	var out record.User
	err := s.read(ctx, "read user "+id, func(ctx context.Context, q *db.Queries) error {
		r, err := q.User(ctx, db.UserParams{Org: org, ID: id})
		out = user(r)
		return missing(err, "user")
	})
	return out, err
}

// Users returns up to limit users of an organisation behind a position, newest first.
func (s *Store) Users(ctx context.Context, org string, after record.Position, limit int) ([]record.User, error) {
	var out []record.User
	err := s.read(ctx, "list users", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Users(ctx, db.UsersParams{Org: org, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, user(db.UserRow(r)))
		}
		return err
	})
	return out, err
}

func user(r db.UserRow) record.User {
	return record.User{ID: r.ID, Name: r.Name, Role: space.Role(r.Role), CreatedAt: r.CreatedAt}
}

// SetUserRole changes what a user may do; their keys never do more from then on. Conflict if no valid key of an owner would be left.
func (s *Store) SetUserRole(ctx context.Context, org, id string, role space.Role) error {
	return s.writeOrg(ctx, "set the role of user", id, org, func(ctx context.Context, q *db.Queries) error {
		n, err := q.SetUserRole(ctx, db.SetUserRoleParams{Org: org, ID: id, Role: string(role)})
		if err == nil && n == 0 {
			return space.Errorf(space.CodeNotFound, "the user does not exist")
		}
		return err
	})
}

// RemoveUser removes a user and revokes their keys. Conflict if no valid key of an owner would be left.
func (s *Store) RemoveUser(ctx context.Context, org, id string) error {
	return s.writeOrg(ctx, "remove user", id, org, func(ctx context.Context, q *db.Queries) error {
		n, err := q.RemoveUser(ctx, db.RemoveUserParams{Org: org, ID: id})
		if err != nil {
			return err
		}
		if n == 0 {
			return space.Errorf(space.CodeNotFound, "the user does not exist")
		}
		rows, err := q.RevokeUserKeys(ctx, id)
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
