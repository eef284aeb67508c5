package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/postgres/db"
)

// FileKey returns the key that signs a sandbox's file URLs; nil if there's none, or no such sandbox.
func (s *Store) FileKey(ctx context.Context, sandbox string) ([]byte, error) {
	var out []byte
	err := s.read(ctx, "read the file key of sandbox "+sandbox, func(ctx context.Context, q *db.Queries) error {
		sealed, err := q.FileKey(ctx, sandbox)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && sealed == nil {
			return nil
		}
		if err != nil {
			return err
		}
		out, err = s.open(sealed, fileKeyContext(sandbox))
		return err
	})
	return out, err
}

// KeepFileKey stores a key unless the sandbox has one, and returns the one that it has.
func (s *Store) KeepFileKey(ctx context.Context, sandbox string, key []byte) ([]byte, error) {
	sealed, err := s.seal(key, fileKeyContext(sandbox))
	if err != nil {
		return nil, err
	}
	var out []byte
	err = s.write(ctx, "keep the file key of sandbox", sandbox, func(ctx context.Context, q *db.Queries) error {
		kept, err := q.KeepFileKey(ctx, db.KeepFileKeyParams{ID: sandbox, FileKeySealed: sealed})
		if err != nil {
			return missing(err, "sandbox")
		}
		out, err = s.open(kept, fileKeyContext(sandbox))
		return err
	})
	return out, err
}

// ForgetFileKey drops the key of a project's sandbox: what it signed is void.
func (s *Store) ForgetFileKey(ctx context.Context, project, sandbox string) error {
	return s.write(ctx, "forget the file key of sandbox", sandbox, func(ctx context.Context, q *db.Queries) error {
		n, err := q.ForgetFileKey(ctx, db.ForgetFileKeyParams{Project: project, ID: sandbox})
		if err == nil && n == 0 {
			return space.Errorf(space.CodeNotFound, "the sandbox does not exist")
		}
		return err
	})
}

// SandboxProject returns the project of a sandbox, for who has shown what opens it; not_found if there's none.
func (s *Store) SandboxProject(ctx context.Context, sandbox string) (string, error) {
	var out string
	err := s.read(ctx, "read the project of sandbox "+sandbox, func(ctx context.Context, q *db.Queries) error {
		var err error
		out, err = q.SandboxProject(ctx, sandbox)
		return missing(err, "sandbox")
	})
	return out, err
}
