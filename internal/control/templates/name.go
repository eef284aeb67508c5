package templates

import (
	"context"
	"regexp"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// maxTags bounds the tags of one request.
const maxTags = 16

// nameRE is what a name, an alias and a tag can be, as openapi.yaml states it.
var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ParseRef reads a reference to a template. What can't be one doesn't exist: not_found. An id is never a name, and a name has no colon, so
// each reference has one meaning.
func ParseRef(s string) (record.TemplateRef, error) {
	if space.CheckID(space.PrefixTemplate, s) == nil {
		return record.TemplateRef{ID: s}, nil
	}
	name, tag, tagged := strings.Cut(s, ":")
	if !isName(name) || tagged && !nameRE.MatchString(tag) {
		return record.TemplateRef{}, space.Errorf(space.CodeNotFound, "the template does not exist")
	}
	return record.TemplateRef{Name: name, Tag: tag}, nil
}

// isName reports whether s can be a name. What looks like an id can't, so that none is taken for another.
func isName(s string) bool {
	return nameRE.MatchString(s) && !strings.HasPrefix(s, string(space.PrefixTemplate)+"_")
}

func checkName(field, s string) error {
	if isName(s) {
		return nil
	}
	return space.FieldErrorf(field, "%q is not a name: 1 to 63 of a-z, 0-9, '.', '_' and '-', of which the first is a letter or digit, and not tpl_…", space.Clip(s))
}

func checkTag(field, s string) error {
	if nameRE.MatchString(s) {
		return nil
	}
	return space.FieldErrorf(field, "%q is not a tag: 1 to 63 of a-z, 0-9, '.', '_' and '-', of which the first is a letter or digit", space.Clip(s))
}

// SetTag lets a tag of a template's name mean the template from now on, and returns the template.
func (t *Templates) SetTag(ctx context.Context, project, ref, tag string) (record.Template, error) {
	if err := checkTag("tag", tag); err != nil {
		return record.Template{}, err
	}
	return t.change(ctx, project, ref, func(id string) error { return t.store.SetTemplateTag(ctx, project, id, tag) })
}

// DeleteTag removes a tag of a template's name, whichever version it means.
func (t *Templates) DeleteTag(ctx context.Context, project, ref, tag string) error {
	if err := checkTag("tag", tag); err != nil {
		return err
	}
	_, err := t.change(ctx, project, ref, func(id string) error { return t.store.DeleteTemplateTag(ctx, project, id, tag) })
	return err
}

// SetAlias gives a template's name another one, and returns the template.
func (t *Templates) SetAlias(ctx context.Context, project, ref, alias string) (record.Template, error) {
	if err := checkName("alias", alias); err != nil {
		return record.Template{}, err
	}
	return t.change(ctx, project, ref, func(id string) error { return t.store.SetTemplateAlias(ctx, project, id, alias) })
}

// DeleteAlias removes an alias of a template's name.
func (t *Templates) DeleteAlias(ctx context.Context, project, ref, alias string) error {
	if err := checkName("alias", alias); err != nil {
		return err
	}
	_, err := t.change(ctx, project, ref, func(id string) error { return t.store.DeleteTemplateAlias(ctx, project, id, alias) })
	return err
}

// change does something to a template and returns it as it is then.
func (t *Templates) change(ctx context.Context, project, ref string, do func(id string) error) (record.Template, error) {
	found, err := t.Get(ctx, project, ref)
	if err != nil {
		return record.Template{}, err
	}
	if err := own(project, found); err != nil {
		return record.Template{}, err
	}
	if err := do(found.ID); err != nil {
		return record.Template{}, err
	}
	return t.store.Template(ctx, project, record.TemplateRef{ID: found.ID})
}

// own refuses to change what another project shares.
func own(project string, t record.Template) error {
	if t.Project != project {
		return space.Errorf(space.CodeForbidden, "template %s is shared by another project, which alone can change it: build your own with that name", t.Name)
	}
	return nil
}
