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
