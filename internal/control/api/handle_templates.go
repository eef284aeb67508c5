package api

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// CreateTemplate starts the build of a template, and waits for it if asked to.
func (h handlers) CreateTemplate(ctx context.Context, r gen.CreateTemplateRequestObject) (gen.CreateTemplateResponseObject, error) {
	wait, err := readWait(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	body := *r.Body
	body.RegistryAuth = nil // what's remembered of a request has nothing of a login, not even in a hash
	request, err := readRequest(r.Params.IdempotencyKey, "createTemplate", "", &body)
	if err != nil {
		return nil, err
	}
	id, err := h.Templates.Build(ctx, caller(ctx).Project, readTemplate(r.Body), request)
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
	l := h.list(ctx, "templates")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Templates.List(ctx, caller(ctx).Project, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListTemplates200JSONResponse{Items: make([]gen.Template, 0, len(rows)), NextCursor: cursor}
	for _, t := range rows {
		out.Items = append(out.Items, renderTemplate(t))
	}
	return out, nil
}

// GetTemplate returns a template.
func (h handlers) GetTemplate(ctx context.Context, r gen.GetTemplateRequestObject) (gen.GetTemplateResponseObject, error) {
	t, err := h.Templates.Get(ctx, caller(ctx).Project, r.Template)
	if err != nil {
		return nil, err
	}
	return gen.GetTemplate200JSONResponse(renderTemplate(t)), nil
}

// DeleteTemplate deletes a template that nothing uses.
func (h handlers) DeleteTemplate(ctx context.Context, r gen.DeleteTemplateRequestObject) (gen.DeleteTemplateResponseObject, error) {
	if err := h.Templates.Delete(ctx, caller(ctx).Project, r.Template); err != nil {
		return nil, err
	}
	return gen.DeleteTemplate204Response{}, nil
}

// SetTemplateTag lets a tag mean a template.
func (h handlers) SetTemplateTag(ctx context.Context, r gen.SetTemplateTagRequestObject) (gen.SetTemplateTagResponseObject, error) {
	t, err := h.Templates.SetTag(ctx, caller(ctx).Project, r.Template, r.Tag)
	if err != nil {
		return nil, err
	}
	return gen.SetTemplateTag200JSONResponse(renderTemplate(t)), nil
}

// DeleteTemplateTag removes a tag.
func (h handlers) DeleteTemplateTag(ctx context.Context, r gen.DeleteTemplateTagRequestObject) (gen.DeleteTemplateTagResponseObject, error) {
	if err := h.Templates.DeleteTag(ctx, caller(ctx).Project, r.Template, r.Tag); err != nil {
		return nil, err
	}
	return gen.DeleteTemplateTag204Response{}, nil
}

// SetTemplateAlias gives a template another name.
func (h handlers) SetTemplateAlias(ctx context.Context, r gen.SetTemplateAliasRequestObject) (gen.SetTemplateAliasResponseObject, error) {
	t, err := h.Templates.SetAlias(ctx, caller(ctx).Project, r.Template, r.Alias)
	if err != nil {
		return nil, err
	}
	return gen.SetTemplateAlias200JSONResponse(renderTemplate(t)), nil
}

// DeleteTemplateAlias removes an alias.
func (h handlers) DeleteTemplateAlias(ctx context.Context, r gen.DeleteTemplateAliasRequestObject) (gen.DeleteTemplateAliasResponseObject, error) {
	if err := h.Templates.DeleteAlias(ctx, caller(ctx).Project, r.Template, r.Alias); err != nil {
		return nil, err
	}
	return gen.DeleteTemplateAlias204Response{}, nil
}

// createSandbox creates a sandbox. A client that waits for it waits for a template that is being built as well; what is left of the wait is
// returned.
func (h handlers) createSandbox(ctx context.Context, c sandboxes.Create, r record.Request, wait time.Duration) (string, time.Duration, error) {
	project, began := caller(ctx).Project, time.Now()
	id, err := h.Sandboxes.Create(ctx, project, c, r)
	if space.CodeOf(err) != space.CodeTemplateNotReady || wait <= 0 {
		return id, wait, err
	}
	if _, err := h.Templates.Settle(ctx, project, c.Template, wait); err != nil {
		return "", 0, err
	}
	if err := keyEnded(ctx); err != nil {
		return "", 0, err
	}
	id, err = h.Sandboxes.Create(ctx, project, c, r)
	return id, max(wait-time.Since(began), 0), err
}
