package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"

	gen "github.com/space-platform/space/api/gen/http"
)

// The documents of templates.
type (
	TemplateCreate = gen.TemplateCreate
	TemplateStep   = gen.TemplateStep
	LogLine        = gen.LogLine
	Upload         = gen.Upload
	UploadInfo     = gen.UploadInfo
)

// ListTemplates returns the project's templates, newest first, a page at a time behind the scenes.
func (c *Client) ListTemplates(ctx context.Context) (list []Template, err error) {
	all := pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListTemplates(ctx, &gen.ListTemplatesParams{Cursor: cursor})
	}, func(p gen.TemplatePage) ([]Template, *string) { return p.Items, p.NextCursor })
	for t, err := range all {
		if err != nil {
			return nil, fmt.Errorf("list templates: %w", err)
		}
		list = append(list, t)
	}
	return list, nil
}

// GetTemplate returns a template by its id, name, alias or NAME:TAG.
func (c *Client) GetTemplate(ctx context.Context, name string) (Template, error) {
	t, err := decode[Template](c.api.GetTemplate(ctx, name))
	if err != nil {
		return Template{}, fmt.Errorf("get template %s: %w", name, err)
	}
	return t, nil
}

// BeginCreateTemplate orders the build of a template and returns the operation at once; Await it. Content that was built already under the same name
// isn't built again.
func (c *Client) BeginCreateTemplate(ctx context.Context, in TemplateCreate) (Operation, error) {
	op, err := decode[Operation](c.api.CreateTemplate(ctx, &gen.CreateTemplateParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return Operation{}, fmt.Errorf("build template: %w", err)
	}
	return op, nil
}

// BeginBuildTemplate orders the build of a template from a built-in recipe (base, mini); see BeginCreateTemplate.
func (c *Client) BeginBuildTemplate(ctx context.Context, recipe string) (Operation, error) {
	of := gen.TemplateCreateRecipe(recipe)
	op, err := c.BeginCreateTemplate(ctx, TemplateCreate{Recipe: &of})
	if err != nil {
		return Operation{}, fmt.Errorf("%s: %w", recipe, err)
	}
	return op, nil
}

// DeleteTemplate deletes a template; it is refused while a sandbox uses it.
func (c *Client) DeleteTemplate(ctx context.Context, name string) error {
	if err := done(c.api.DeleteTemplate(ctx, name)); err != nil {
		return fmt.Errorf("delete template %s: %w", name, err)
	}
	return nil
}

// SetTemplateTag lets NAME:TAG mean a template from now on.
func (c *Client) SetTemplateTag(ctx context.Context, template, tag string) (Template, error) {
	t, err := decode[Template](c.api.SetTemplateTag(ctx, template, tag))
	if err != nil {
		return t, fmt.Errorf("tag template %s: %w", template, err)
	}
	return t, nil
}

// DeleteTemplateTag removes a tag.
func (c *Client) DeleteTemplateTag(ctx context.Context, template, tag string) error {
	if err := done(c.api.DeleteTemplateTag(ctx, template, tag)); err != nil {
		return fmt.Errorf("remove tag %s of template %s: %w", tag, template, err)
	}
	return nil
}

// SetTemplateAlias gives a template another name.
func (c *Client) SetTemplateAlias(ctx context.Context, template, alias string) (Template, error) {
	t, err := decode[Template](c.api.SetTemplateAlias(ctx, template, alias))
	if err != nil {
		return t, fmt.Errorf("name template %s %s: %w", template, alias, err)
	}
	return t, nil
}

// DeleteTemplateAlias removes a name of a template that isn't its own.
func (c *Client) DeleteTemplateAlias(ctx context.Context, template, alias string) error {
	if err := done(c.api.DeleteTemplateAlias(ctx, template, alias)); err != nil {
		return fmt.Errorf("remove the name %s of template %s: %w", alias, template, err)
	}
	return nil
}

// UploadOption says more about an upload.
type UploadOption func(*gen.UploadCreate)

// WithSHA256 says the sum of all bytes, in hex. They are compared with it, and templates that are made of uploads with the same sum are made of
// the same; without it each upload is another one.
func WithSHA256(sum string) UploadOption { return func(in *gen.UploadCreate) { in.Sha256 = &sum } }

// Upload sends all of r to the platform, for a template build to use, as it's read, and returns the upload's id.
func (c *Client) Upload(ctx context.Context, r io.Reader, options ...UploadOption) (id string, err error) {
	u, err := c.BeginUpload(ctx, options...)
	if err != nil {
		return "", err
	}
	return u.Id, c.SendUpload(ctx, u.Url, u.Token, r)
}

// BeginUpload makes room for an upload and says where its bytes go, and with which token, within an hour.
func (c *Client) BeginUpload(ctx context.Context, options ...UploadOption) (Upload, error) {
	var in gen.UploadCreate
	for _, o := range options {
		o(&in)
	}
	u, err := decode[Upload](c.api.CreateUpload(ctx, &gen.CreateUploadParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return u, fmt.Errorf("begin an upload: %w", err)
	}
	return u, nil
}

// SendUpload sends an upload's bytes to the address that BeginUpload was told, with its token and no key.
func (c *Client) SendUpload(ctx context.Context, address, token string, r io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, r)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/octet-stream")
	if err := done(c.http.Do(req)); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return nil
}

// ListUploads returns the project's uploads, newest first, a page at a time behind the scenes.
func (c *Client) ListUploads(ctx context.Context) iter.Seq2[UploadInfo, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListUploads(ctx, &gen.ListUploadsParams{Cursor: cursor})
	}, func(p gen.UploadPage) ([]UploadInfo, *string) { return p.Items, p.NextCursor })
}

// DeleteUpload deletes an upload; it is refused while a build uses it. What was built of it stays.
func (c *Client) DeleteUpload(ctx context.Context, id string) error {
	if err := done(c.api.DeleteUpload(ctx, id)); err != nil {
		return fmt.Errorf("delete upload %s: %w", id, err)
	}
	return nil
}
