package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// CreateTemplate starts the build of a template, and waits for it if asked to.
func (h handlers) CreateTemplate(ctx context.Context, r gen.CreateTemplateRequestObject) (gen.CreateTemplateResponseObject, error) {
	wait, err := readWait(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	request, err := readRequest(r.Params.IdempotencyKey, "createTemplate", "", r.Body)
	if err != nil {
		return nil, err
	}
	id, err := h.Templates.Build(ctx, caller(ctx).Project, string(r.Body.Recipe), request)
	if err != nil {
		return nil, err
	}
	out, ended, err := h.await(ctx, id, wait)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.CreateTemplate201JSONResponse(out), nil
	default:
		return gen.CreateTemplate202JSONResponse(out), nil
	}
}

// ListTemplates returns a page of the project's templates.
func (h handlers) ListTemplates(ctx context.Context, r gen.ListTemplatesRequestObject) (gen.ListTemplatesResponseObject, error) {
	after, limit, err := readPage(r.Params.Cursor, r.Params.Limit, space.PrefixTemplate)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Templates.List(ctx, caller(ctx).Project, after, limit)
	if err != nil {
		return nil, err
	}
	out := gen.ListTemplates200JSONResponse{Items: make([]gen.Template, 0, len(rows)), NextCursor: writeCursor(next)}
	for _, t := range rows {
		out.Items = append(out.Items, renderTemplate(t))
	}
	return out, nil
}

// GetTemplate returns a template by name or id.
func (h handlers) GetTemplate(ctx context.Context, r gen.GetTemplateRequestObject) (gen.GetTemplateResponseObject, error) {
	t, err := h.Templates.Get(ctx, caller(ctx).Project, r.Template)
	if err != nil {
		return nil, err
	}
	return gen.GetTemplate200JSONResponse(renderTemplate(t)), nil
}
