package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
)

// CreateUpload begins an upload, and shows its token once.
func (h handlers) CreateUpload(ctx context.Context, r gen.CreateUploadRequestObject) (gen.CreateUploadResponseObject, error) {
	u, err := h.Uploads.Create(ctx, caller(ctx).Project, r.Body.Sha256)
	if err != nil {
		return nil, err
	}
	return gen.CreateUpload201JSONResponse{Id: u.ID, Url: u.URL, Token: u.Token, ExpiresAt: u.ExpiresAt.UTC()}, nil
}
