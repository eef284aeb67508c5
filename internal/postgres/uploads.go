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
	err = s.write(ctx, "create upload", n.ID, func(ctx context.Context, q *db.Queries) error {
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
		out = record.Upload{ID: r.ID, Project: r.Project, Node: r.Node, SHA256: r.Sha256, ExpiresAt: r.ExpiresAt, Expired: r.Expired, Deleted: r.Deleted, Named: r.Named, DiskQuota: r.QuotaDiskBytes}
		copy(out.Token[:], r.TokenHash)
		return nil
	})
	return out, err
}

// Uploads returns those of a project that aren't deleted, newest first.
func (s *Store) Uploads(ctx context.Context, project string, after record.Position, limit int) ([]record.UploadInfo, error) {
	var out []record.UploadInfo
	err := s.read(ctx, "list the uploads of project "+project, func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Uploads(ctx, db.UploadsParams{Project: project, Kept: record.UploadKept, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)})
		for _, r := range rows {
			out = append(out, record.UploadInfo{ID: r.ID, SHA256: r.Sha256, Bytes: r.Bytes, InUse: r.InUse, CreatedAt: r.CreatedAt, UsableUntil: r.UsableUntil})
		}
		return err
	})
	return out, err
}

// DeleteUpload deletes an upload and returns the node that is to remove it; "" if it was deleted before.
//
// Errors: not_found, conflict (a build uses it).
func (s *Store) DeleteUpload(ctx context.Context, project, id string) (node string, err error) {
	err = s.write(ctx, "delete upload", id, func(ctx context.Context, q *db.Queries) error {
		u, err := q.LockUpload(ctx, db.LockUploadParams{Project: project, ID: id})
		if err != nil || u.Deleted {
			node = ""
			return missing(err, "upload")
		}
		used, err := q.UploadInUse(ctx, id) // a statement of its own: it sees the builds that were waited for
		if err != nil {
			return err
		}
		if used {
			return space.Errorf(space.CodeConflict, "a build uses the upload: delete the upload when that has ended, or the template that is being built first")
		}
		node = u.Node
		return q.MarkUploadDeleted(ctx, id)
	})
	if err != nil {
		return "", err
	}
	return node, nil
}

func seeUploads(ctx context.Context, q *db.Queries, node string, seen []record.UploadSeen) error {
	if len(seen) == 0 {
		return nil
	}
	p := db.SeeUploadsParams{Node: node}
	for _, u := range seen {
		p.Ids, p.Sizes = append(p.Ids, u.ID), append(p.Sizes, u.Bytes)
	}
	return q.SeeUploads(ctx, p)
}
