package postgres

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// claim takes a request's Idempotency-Key for resource. It returns resource, or what an earlier request with the same key made; a
// request at the same time is waited for. It must be the first statement of the transaction that makes the resource.
func claim(ctx context.Context, q *db.Queries, project string, r record.Request, resource string) (string, error) {
	if r.Key == "" {
		return resource, nil
	}
	n, err := q.ClaimIdempotencyKey(ctx, db.ClaimIdempotencyKeyParams{
		Project: project, Key: r.Key, RequestHash: r.Hash[:], Resource: resource, Kept: record.IdempotencyKept,
	})
	if err != nil || n == 1 {
		return resource, err
	}
	return made(ctx, q, project, r)
}

// Claim takes a request's Idempotency-Key for a resource that the request makes nothing of but an answer. It returns when the key was taken,
// which the answer may depend on; idempotency_mismatch if another request has it.
func (s *Store) Claim(ctx context.Context, project string, r record.Request, resource string) (at time.Time, err error) {
	err = s.write(ctx, "claim an idempotency key", "", func(ctx context.Context, q *db.Queries) error {
		if _, err := claim(ctx, q, project, r, resource); err != nil {
			return err
		}
		row, err := q.IdempotencyKey(ctx, db.IdempotencyKeyParams{Project: project, Key: r.Key, Kept: record.IdempotencyKept})
		at = row.CreatedAt
		return err
	})
	return at, err
}

func made(ctx context.Context, q *db.Queries, project string, r record.Request) (string, error) {
	row, err := q.IdempotencyKey(ctx, db.IdempotencyKeyParams{Project: project, Key: r.Key, Kept: record.IdempotencyKept})
	if err != nil {
		return "", err
	}
	if !bytes.Equal(row.RequestHash, r.Hash[:]) {
		return "", space.Errorf(space.CodeIdempotencyMismatch, "the Idempotency-Key was used for another request within the last 24 hours: choose a new key")
	}
	return row.Resource, nil
}

// Made returns what an earlier request with the same Idempotency-Key made; "" if there was none. It's idempotency_mismatch if that
// request was another one.
func (s *Store) Made(ctx context.Context, project string, r record.Request) (string, error) {
	if r.Key == "" {
		return "", nil
	}
	var out string
	err := s.read(ctx, "look up an idempotency key", func(ctx context.Context, q *db.Queries) error {
		var err error
		out, err = made(ctx, q, project, r)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return out, err
}
