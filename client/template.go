package client

import (
	"context"
	"fmt"

	gen "github.com/space-platform/space/api/gen/http"
)

// ListTemplates returns the project's templates, newest first, a page at a time behind the scenes.
func (c *Client) ListTemplates(ctx context.Context) (list []Template, err error) {
	for cursor := (*string)(nil); ; {
		page, err := decode[gen.TemplatePage](c.api.ListTemplates(ctx, &gen.ListTemplatesParams{Cursor: cursor}))
		if err != nil {
			return nil, fmt.Errorf("list templates: %w", err)
		}
		list = append(list, page.Items...)
		if cursor = page.NextCursor; cursor == nil {
			return list, nil
		}
	}
}

// GetTemplate returns a template by its name or id.
func (c *Client) GetTemplate(ctx context.Context, name string) (Template, error) {
	t, err := decode[Template](c.api.GetTemplate(ctx, name))
	if err != nil {
		return Template{}, fmt.Errorf("get template %s: %w", name, err)
	}
	return t, nil
}

// BeginBuildTemplate orders the build of a template from a built-in recipe (base, mini) and returns the operation at once; Await it. A
// template that is ready isn't built again.
func (c *Client) BeginBuildTemplate(ctx context.Context, recipe string) (Operation, error) {
	of := gen.TemplateCreateRecipe(recipe)
	in := gen.TemplateCreate{Recipe: &of}
	op, err := decode[Operation](c.api.CreateTemplate(ctx, &gen.CreateTemplateParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return Operation{}, fmt.Errorf("build template %s: %w", recipe, err)
	}
	return op, nil
}
