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

// maxSessions bounds the sessions of one sandbox: their specs stay until it is deleted.
const maxSessions = 10_000

// CreateSession writes a session with its first attachment token, unless an earlier request with its Idempotency-Key has. The caller has checked that
// the sandbox is the project's.
func (s *Store) CreateSession(ctx context.Context, n record.NewSession) (out record.CreatedSession, err error) {
	sealed, err := s.sealSpec(n.ID, n.Spec)
	if err != nil {
		return out, err
	}
	var row db.CreateSessionRow
	err = s.write(ctx, "create session", n.ID, func(ctx context.Context, q *db.Queries) (err error) {
		row, err = q.CreateSession(last(ctx), db.CreateSessionParams{
			Project: n.Project, Key: n.Request.Key, RequestHash: n.Request.Hash[:], Kept: record.IdempotencyKept, Most: maxSessions,
			ID: n.ID, Sandbox: n.Sandbox, Argv: n.Spec.Argv, Cwd: n.Spec.Cwd, RunAs: n.Spec.User, SecretSealed: sealed, OpenStdin: n.Spec.OpenStdin,
			TtyRows: int32(n.Spec.TTY.Rows), TtyCols: int32(n.Spec.TTY.Cols), TimeoutSeconds: int32(n.Spec.Timeout / time.Second), Execution: n.Execution,
			TokenHash: n.Token[:], Life: n.TokenLife, IssuedBy: orNull(n.IssuedBy),
		})
		return err
	})
	switch {
	case err != nil:
		return out, err
	case row.CreatedAt != nil && row.ExpiresAt != nil:
		return record.CreatedSession{ID: n.ID, Fresh: true, Fixed: row.Fixed != nil && *row.Fixed, CreatedAt: *row.CreatedAt, ExpiresAt: *row.ExpiresAt}, nil
	case row.Had >= maxSessions:
		return out, space.Errorf(space.CodeQuotaExceeded, "the sandbox has had %d sessions, which is the limit: create another sandbox", row.Had)
	}
	out.ID, err = s.Made(ctx, n.Project, n.Request)
	return out, err
}

// CreateAttachment stores another token of a session, issued by a sandbox token or, if that's empty, by an API key. The caller has checked that
// the session is the project's.
func (s *Store) CreateAttachment(ctx context.Context, session string, token record.TokenHash, life time.Duration, issuedBy string) error {
	return s.write(ctx, "create an attachment of session", session, func(ctx context.Context, q *db.Queries) error {
		return q.InsertAttachment(later(ctx), db.InsertAttachmentParams{TokenHash: token[:], Session: session, Life: life, IssuedBy: orNull(issuedBy)})
	})
}

// Attachment returns an issued token's record; not_found if there's none.
func (s *Store) Attachment(ctx context.Context, token record.TokenHash) (record.Attachment, error) {
	var out record.Attachment
	err := s.read(ctx, "read an attachment", func(ctx context.Context, q *db.Queries) error {
		row, err := q.Attachment(ctx, token[:])
		if errors.Is(err, pgx.ErrNoRows) {
			return space.Errorf(space.CodeNotFound, "the attachment token does not exist")
		}
		out = record.Attachment{Session: row.Session, ExpiresAt: row.ExpiresAt}
		return err
	})
	return out, err
}

// Session returns a session of a project's sandbox without its environment and stdin; not_found if it has none of that id.
func (s *Store) Session(ctx context.Context, project, sandbox, id string) (record.Session, error) {
	var out record.Session
	err := s.read(ctx, "read session "+id, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Session(ctx, db.SessionParams{Project: project, Sandbox: sandbox, ID: id})
		if err != nil {
			return missing(err, "session")
		}
		out = session(r)
		return nil
	})
	return out, err
}

// Sessions returns up to limit sessions of a sandbox behind a position, newest first, as Session does. The caller has checked that the
// sandbox is the project's.
func (s *Store) Sessions(ctx context.Context, sandbox string, after record.Position, limit int) ([]record.Session, error) {
	p := db.SessionsParams{Sandbox: sandbox, BeforeID: after.ID, MaxRows: int32(limit)}
	if after.ID != "" {
		p.BeforeAt = &after.CreatedAt
	}
	var out []record.Session
	err := s.read(ctx, "list the sessions of sandbox "+sandbox, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Sessions(ctx, p)
		for _, r := range rows {
			out = append(out, session(db.SessionRow(r)))
		}
		return err
	})
	return out, err
}

func session(r db.SessionRow) record.Session {
	out := record.Session{
		ID: r.ID, Sandbox: r.Sandbox, Spec: spec(r.Argv, r.Cwd, r.RunAs, r.OpenStdin, r.TtyRows, r.TtyCols, r.TimeoutSeconds),
		Execution: text(r.Execution), CreatedAt: r.CreatedAt,
	}
	if r.StartedAt != nil {
		out.StartedAt = *r.StartedAt
	}
	switch {
	case r.EndedAt != nil:
		out.End = &record.SessionEnd{
			Session: r.ID, At: *r.EndedAt, Code: r.ExitCode, Signal: r.ExitSignal, Error: r.ExitError, TimedOut: r.TimedOut, Stopped: r.Stopped, Lost: r.Lost,
			OutputBytes: r.OutputBytes,
		}
	case r.State != nil: // its execution is gone, and can tell nothing any more
		out.End = &record.SessionEnd{Session: r.ID, At: *r.Since, Lost: true, Error: text(r.ErrorMessage)}
	}
	return out
}

// endSession writes how a session of a node has ended, unless that is known.
func endSession(ctx context.Context, q *db.Queries, node string, e record.SessionEnd) error {
	return q.EndSession(ctx, db.EndSessionParams{
		ID: e.Session, Node: node, EndedAt: e.At, ExitCode: e.Code, ExitSignal: e.Signal, ExitError: e.Error, TimedOut: e.TimedOut, Stopped: e.Stopped, Lost: e.Lost,
		OutputBytes: e.OutputBytes,
	})
}

// spec is what isn't secret of what a session runs.
func spec(argv []string, cwd, user string, openStdin bool, rows, cols, timeoutSeconds int32) record.Spec {
	return record.Spec{
		Argv: argv, Cwd: cwd, User: user, OpenStdin: openStdin, TTY: record.Terminal{Rows: uint32(rows), Cols: uint32(cols)},
		Timeout: time.Duration(timeoutSeconds) * time.Second,
	}
}

// AttachmentTarget returns what a token opens; unauthenticated if no such token was issued.
func (s *Store) AttachmentTarget(ctx context.Context, token record.TokenHash) (record.Target, error) {
	var out record.Target
	err := s.read(ctx, "read an attachment's target", func(ctx context.Context, q *db.Queries) error {
		row, err := q.AttachmentTarget(ctx, token[:])
		if errors.Is(err, pgx.ErrNoRows) {
			return space.Errorf(space.CodeUnauthenticated, "the attachment token isn't valid")
		}
		if err != nil {
			return err
		}
		out, err = s.target(row)
		return err
	})
	return out, err
}

func (s *Store) target(r db.AttachmentTargetRow) (record.Target, error) {
	out := record.Target{
		Session: record.Session{
			ID: r.Session, Sandbox: r.Sandbox, Execution: text(r.SessionExecution),
			Spec: spec(r.Argv, r.Cwd, r.RunAs, r.OpenStdin, r.TtyRows, r.TtyCols, r.TimeoutSeconds),
		},
		SessionEnded: r.SessionEnded, Project: r.Project, AutoWake: r.AutoWake,
		Sandbox: r.Sandbox, Desired: record.Desired(r.Desired), Expired: r.Expired, Revoked: r.Revoked,
		Execution: record.Execution{
			Route:    route(r.Sandbox, r.Execution, r.Epoch, r.PlacementKind, r.Node, r.PodUid),
			Observed: observed(r.State), Error: failure(r.ErrorCode, r.ErrorMessage), DiskOf: text(r.DiskOf), Snapshot: text(r.Snapshot),
		},
	}
	return out, s.openSpec(r.Session, r.SecretSealed, &out.Session.Spec)
}

// FixSession binds a session to the execution that its first attach found. It reports whether it did: not if another attach was first,
// or if the execution is no longer the sandbox's current one.
func (s *Store) FixSession(ctx context.Context, session, execution string) (fixed bool, err error) {
	err = s.write(ctx, "fix session", session, func(ctx context.Context, q *db.Queries) error {
		n, err := q.FixSession(last(ctx), db.FixSessionParams{ID: session, Execution: execution})
		fixed = n == 1
		return err
	})
	return fixed, err
}
