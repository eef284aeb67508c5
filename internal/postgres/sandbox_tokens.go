package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxSandboxTokens bounds the valid tokens of one sandbox.
const maxSandboxTokens = 100

// CreateSandboxToken stores a token and returns its id: an earlier one if the request's Idempotency-Key has made it already. The caller has
// checked that the sandbox is the project's.
func (s *Store) CreateSandboxToken(ctx context.Context, n record.NewSandboxToken) (id string, err error) {
	err = s.write(ctx, "create a token of sandbox", n.Sandbox, func(ctx context.Context, q *db.Queries) error {
		id, err = claim(ctx, q, n.Project, n.Request, n.ID)
		if err != nil || id != n.ID {
			return err
		}
		held, err := q.LockSandbox(ctx, db.LockSandboxParams{Project: n.Project, ID: n.Sandbox})
		if err != nil {
			return err
		}
		if held == 0 {
			return missing(pgx.ErrNoRows, "sandbox")
		}
		count, err := q.CountSandboxTokens(ctx, n.Sandbox)
		if err != nil {
			return err
		}
		if count >= maxSandboxTokens {
			return space.Errorf(space.CodeQuotaExceeded, "the sandbox has %d valid tokens, which is the limit: revoke some", count)
		}
		return q.InsertSandboxToken(later(ctx), db.InsertSandboxTokenParams{ID: n.ID, Sandbox: n.Sandbox, Name: n.Name, TokenHash: n.Hash[:], Life: n.Life})
	})
	return id, err
}

// SandboxToken returns a token of a project's sandbox, valid or not; not_found if it has none of that id.
func (s *Store) SandboxToken(ctx context.Context, project, sandbox, id string) (record.SandboxToken, error) {
	var out record.SandboxToken
	err := s.read(ctx, "read a sandbox token", func(ctx context.Context, q *db.Queries) error {
		row, err := q.SandboxToken(ctx, db.SandboxTokenParams{Project: project, Sandbox: sandbox, ID: id})
		out = record.SandboxToken(row)
		return missing(err, "token")
	})
	return out, err
}

// SandboxTokens returns the valid tokens of a sandbox, newest first. The caller has checked that the sandbox is the project's.
func (s *Store) SandboxTokens(ctx context.Context, sandbox string) ([]record.SandboxToken, error) {
	var out []record.SandboxToken
	err := s.read(ctx, "list the tokens of sandbox "+sandbox, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.SandboxTokens(ctx, db.SandboxTokensParams{Sandbox: sandbox, MaxRows: maxSandboxTokens})
		for _, r := range rows {
			out = append(out, record.SandboxToken(r))
		}
		return err
	})
	return out, err
}

// RevokeSandboxToken ends a token at once; one that is revoked stays so. It's not_found if the project's sandbox has none of that id.
func (s *Store) RevokeSandboxToken(ctx context.Context, project, sandbox, id string) error {
	return s.write(ctx, "revoke a sandbox token", "", func(ctx context.Context, q *db.Queries) error {
		n, err := q.RevokeSandboxToken(ctx, db.RevokeSandboxTokenParams{Project: project, Sandbox: sandbox, ID: id})
		if err == nil && n == 0 {
			return missing(pgx.ErrNoRows, "token")
		}
		return err
	})
}

// Bearer returns whom a sandbox token stands for; unauthenticated if no such token was issued.
func (s *Store) Bearer(ctx context.Context, token record.TokenHash) (record.Bearer, error) {
	var out record.Bearer
	err := s.read(ctx, "read a sandbox token", func(ctx context.Context, q *db.Queries) error {
		row, err := q.SandboxTokenByHash(ctx, token[:])
		out = record.Bearer{Token: row.ID, Project: row.Project, Sandbox: row.Sandbox, Expired: row.Expired, Revoked: row.Revoked}
		return unknownToken(err)
	})
	return out, err
}

// EndedTokens returns those tokens, of sandboxes and of sessions, that were revoked or have expired; an attachment token ends with the sandbox
// token that issued it, not with its own time. One that isn't known isn't returned.
func (s *Store) EndedTokens(ctx context.Context, tokens []record.TokenHash) ([]record.EndedToken, error) {
	hashes := make([][]byte, len(tokens))
	for i := range tokens {
		hashes[i] = tokens[i][:]
	}
	var out []record.EndedToken
	err := s.read(ctx, "find the tokens that have ended", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.EndedTokens(ctx, hashes)
		for _, r := range rows {
			out = append(out, record.EndedToken{Hash: record.TokenHash(r.TokenHash), Revoked: r.Revoked})
		}
		return err
	})
	return out, err
}

// SandboxTokenTarget returns what a sandbox token opens when it's shown for a session; unauthenticated if no such token was issued.
func (s *Store) SandboxTokenTarget(ctx context.Context, token record.TokenHash, session string) (record.Target, error) {
	var out record.Target
	err := s.read(ctx, "read a sandbox token's target", func(ctx context.Context, q *db.Queries) error {
		r, err := q.SandboxTokenTarget(ctx, db.SandboxTokenTargetParams{TokenHash: token[:], Session: session})
		if err != nil {
			return unknownToken(err)
		}
		out, err = s.target(attachmentRow(r))
		return err
	})
	return out, err
}

// attachmentRow is the row of an attachment that would open the same; without a session everything of it is empty.
func attachmentRow(r db.SandboxTokenTargetRow) db.AttachmentTargetRow {
	return db.AttachmentTargetRow{
		Expired: r.Expired, Revoked: r.Revoked, Session: text(r.Session), Argv: r.Argv, Cwd: text(r.Cwd), RunAs: text(r.RunAs), SecretSealed: r.SecretSealed,
		OpenStdin: r.OpenStdin != nil && *r.OpenStdin, TtyRows: number(r.TtyRows), TtyCols: number(r.TtyCols), TimeoutSeconds: number(r.TimeoutSeconds),
		SessionExecution: r.SessionExecution, SessionEnded: r.SessionEnded, Project: r.Project, AutoWake: r.AutoWake, Sandbox: r.Sandbox, Desired: r.Desired, Execution: r.Execution, Epoch: r.Epoch,
		PlacementKind: r.PlacementKind, Node: r.Node, PodUid: r.PodUid, DiskOf: r.DiskOf, Snapshot: r.Snapshot, State: r.State, ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
	}
}

func unknownToken(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
	}
	return err
}
