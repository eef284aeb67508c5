package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

const (
	// deletedKept is how long a deleted sandbox can still be read.
	deletedKept = 24 * time.Hour
	// expiredKept is how long an expired token is still told from an unknown one.
	expiredKept = 24 * time.Hour
	// failedKept is how long a template is listed whose build failed and that isn't built again.
	failedKept = 7 * 24 * time.Hour
	// keyKept is how long a key is listed that is revoked or expired.
	keyKept = 30 * 24 * time.Hour
	// eventsKept is how long an event can be read.
	eventsKept = 30 * 24 * time.Hour
	// maxEvents is how many events of one project can be read.
	maxEvents = 100_000
	// pruneRows bounds one statement, so that no pruning holds its locks for long.
	pruneRows = 500
)

// Prune deletes a bounded batch of each kind of record whose time is over, and returns how many. Call it again while it returns any.
func (s *Store) Prune(ctx context.Context) (rows int64, err error) {
	if err := s.NumberEvents(ctx); err != nil { // the limits count those that have numbers, and perhaps nobody reads them
		return 0, fmt.Errorf("prune: %w", err)
	}
	steps := []struct {
		what string
		do   func(context.Context, *db.Queries) (int64, error)
	}{
		{"idempotency keys", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneIdempotencyKeys(ctx, db.PruneIdempotencyKeysParams{Kept: record.IdempotencyKept, MaxRows: pruneRows})
		}},
		{"attachments", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneAttachments(ctx, db.PruneAttachmentsParams{Kept: expiredKept, MaxRows: pruneRows})
		}},
		{"sandbox tokens", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneSandboxTokens(ctx, db.PruneSandboxTokensParams{Kept: expiredKept, MaxRows: pruneRows})
		}},
		{"sandboxes", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneSandboxes(ctx, db.PruneSandboxesParams{Kept: deletedKept, MaxRows: pruneRows})
		}},
		{"snapshots", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneSnapshots(ctx, db.PruneSnapshotsParams{Kept: deletedKept, MaxRows: pruneRows})
		}},
		{"failed templates", deleteFailedTemplates},
		{"templates", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneTemplates(ctx, db.PruneTemplatesParams{Kept: deletedKept, MaxRows: pruneRows})
		}},
		{"keys", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneKeys(ctx, db.PruneKeysParams{Kept: keyKept, MaxRows: pruneRows})
		}},
		{"users", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneUsers(ctx, db.PruneUsersParams{Kept: keyKept, MaxRows: pruneRows})
		}},
		{"old events", pruneOldEvents},
		{"excess events", pruneExcessEvents},
		{"uploads", func(ctx context.Context, q *db.Queries) (int64, error) {
			return q.PruneUploads(ctx, db.PruneUploadsParams{Kept: record.UploadKept, MaxRows: pruneRows})
		}},
	}
	for _, step := range steps {
		err := s.write(ctx, "prune", step.what, func(ctx context.Context, q *db.Queries) error {
			n, err := step.do(ctx, q)
			rows += n
			return err
		})
		if err != nil {
			return rows, fmt.Errorf("prune: %w", err)
		}
	}
	return rows, nil
}

// deleteFailedTemplates deletes templates whose build failed long ago, as their owner could.
func deleteFailedTemplates(ctx context.Context, q *db.Queries) (int64, error) {
	ids, err := q.OldFailedTemplates(ctx, db.OldFailedTemplatesParams{Kept: failedKept, MaxRows: pruneRows})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if _, err := deleteTemplate(ctx, q, id); err != nil {
			return 0, err
		}
	}
	return int64(len(ids)), nil
}
