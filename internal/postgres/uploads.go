package postgres

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxUploads bounds the uploads of a project that are kept at a time.
const maxUploads = 500

// CreateUpload writes an upload and returns its id: an earlier one if the request's Idempotency-Key has made it already. It's quota_exceeded if
// the project has too many.
func (s *Store) CreateUpload(ctx context.Context, n record.NewUpload) (id string, err error) {
	err = s.write(ctx, "create upload "+n.ID, func(ctx context.Context, q *db.Queries) error {
		id, err = claim(ctx, q, n.Project, n.Request, n.ID)
		if err != nil || id != n.ID {
			return err
		}
		if err := q.LockUploads(ctx, n.Project); err != nil {
			return err
		}
		count, err := q.CountUploads(ctx, db.CountUploadsParams{Project: n.Project, Kept: record.UploadKept})
		if err != nil {
			return err
		}
		if count >= maxUploads {
			return space.Errorf(space.CodeQuotaExceeded, "the project has made %d uploads within %.0f hours, which is the limit: try again later", count, record.UploadKept.Hours())
		}
		return q.InsertUpload(ctx, db.InsertUploadParams{
			ID: n.ID, Project: n.Project, Node: n.Node, TokenHash: n.Token[:], Sha256: n.SHA256, Life: record.UploadLife,
		})
	})
	return id, err
}

// Upload returns an upload, of whatever project; not_found if there's none.
func (s *Store) Upload(ctx context.Context, id string) (record.Upload, error) {
	var out record.Upload
	err := s.read(ctx, "read upload "+id, func(ctx context.Context, q *db.Queries) error {
		r, err := q.Upload(ctx, id)
		if err != nil {
			return missing(err, "upload")
		}
		out = record.Upload{ID: r.ID, Project: r.Project, Node: r.Node, SHA256: r.Sha256, ExpiresAt: r.ExpiresAt, Expired: r.Expired, DiskQuota: r.QuotaDiskBytes}
		copy(out.Token[:], r.TokenHash)
		return nil
	})
	return out, err
}
