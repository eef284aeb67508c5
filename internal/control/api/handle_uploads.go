package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
)

// CreateUpload begins an upload, and shows its token.
func (h handlers) CreateUpload(ctx context.Context, r gen.CreateUploadRequestObject) (gen.CreateUploadResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createUpload", "", r.Body)
	if err != nil {
		return nil, err
	}
	by := caller(ctx)
	u, err := h.Uploads.Create(ctx, by.Project, by.Key, r.Body.Sha256, request)
	if err != nil {
		return nil, err
	}
	return gen.CreateUpload201JSONResponse{Id: u.ID, Url: u.URL, Token: u.Token, ExpiresAt: u.ExpiresAt.UTC()}, nil
}

// ListUploads returns a page of the project's uploads.
func (h handlers) ListUploads(ctx context.Context, r gen.ListUploadsRequestObject) (gen.ListUploadsResponseObject, error) {
	l := h.list(ctx, "uploads")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Uploads.List(ctx, caller(ctx).Project, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListUploads200JSONResponse{Items: make([]gen.UploadInfo, 0, len(rows)), NextCursor: cursor}
	for _, u := range rows {
		out.Items = append(out.Items, gen.UploadInfo{
			Id: u.ID, Bytes: u.Bytes, Sha256: notEmpty(u.SHA256), InUse: u.InUse, CreatedAt: u.CreatedAt.UTC(), UsableUntil: u.UsableUntil.UTC(),
		})
	}
	return out, nil
}

// DeleteUpload deletes an upload that no build uses.
func (h handlers) DeleteUpload(ctx context.Context, r gen.DeleteUploadRequestObject) (gen.DeleteUploadResponseObject, error) {
	if err := h.Uploads.Delete(ctx, caller(ctx).Project, r.Upload); err != nil {
		return nil, err
	}
	return gen.DeleteUpload204Response{}, nil
}
