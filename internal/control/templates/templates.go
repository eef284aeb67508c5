// Package templates has what a project can do with its templates: build, get, list, tag, delete, and read a build's log. It writes which
// ones are wanted; their node builds them and says what became of it.
//
// A template is one version of its name. A build with other content makes another version, which takes the name when it is ready; the one
// before stays usable by its id and its tags.
package templates

import (
	"context"
	"slices"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// MaxPage bounds a page of the list.
	MaxPage = 100
	// pollEvery is the safety net for a wake-up that was lost.
	pollEvery = 2 * time.Second
)

// Store keeps templates.
type Store interface {
	BuildTemplate(ctx context.Context, n record.NewTemplate) (operation string, err error)
	Template(ctx context.Context, project string, ref record.TemplateRef) (record.Template, error)
	Templates(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, error)
	DeleteTemplate(ctx context.Context, project, id string) (node string, ended []string, err error)
	SetTemplateTag(ctx context.Context, project, id, tag string) error
	DeleteTemplateTag(ctx context.Context, project, id, tag string) error
	SetTemplateAlias(ctx context.Context, project, id, alias string) error
	DeleteTemplateAlias(ctx context.Context, project, id, alias string) error
	TemplateLog(ctx context.Context, id string, after int64, limit int) (lines []record.LogLine, before int64, err error)
	NewestLogLine(ctx context.Context, id string) (int64, error)
	Made(ctx context.Context, project string, r record.Request) (string, error)
}

// Templates are the templates of all projects.
type Templates struct {
	store Store
	bell  *wake.Bell
	node  string // that builds them
}

// New returns the templates in a store; node builds new ones. Whoever records something new of a template rings its id.
func New(store Store, bell *wake.Bell, node string) *Templates {
	return &Templates{store: store, bell: bell, node: node}
}

// Build writes that a template is wanted and returns the operation. If the newest version of its name has the same content, and hasn't
// failed, that is its operation; else another version is built. The same request with the same Idempotency-Key returns the same one.
func (t *Templates) Build(ctx context.Context, project string, c Create, r record.Request) (operation string, err error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	if operation, err := t.store.Made(ctx, project, r); err != nil || operation != "" {
		return operation, err
	}
	base, err := t.base(ctx, project, c)
	if err != nil {
		return "", err
	}
	n, err := t.intent(project, c, base, r)
	if err != nil {
		return "", err
	}
	operation, err = t.store.BuildTemplate(ctx, n)
	if err != nil {
		return "", err
	}
	t.bell.Ring(wake.Node(t.node))
	return operation, nil
}

// base returns the template that a build adds to; nil if it begins with something else.
func (t *Templates) base(ctx context.Context, project string, c Create) (*record.Template, error) {
	if c.Template == nil {
		return nil, nil
	}
	base, err := t.Get(ctx, project, *c.Template)
	switch {
	case err != nil:
		return nil, err
	case base.State == record.TemplateBuilding:
		return nil, space.Errorf(space.CodeTemplateNotReady, "template %s, which this one is built on, is being built: wait for it first", base.Name)
	case base.State != record.TemplateReady:
		return nil, space.Errorf(space.CodeTemplateNotReady, "the build of template %s, which this one is built on, failed: build it anew first (%s)", base.Name, base.Why())
	}
	return &base, nil
}

func (t *Templates) intent(project string, c Create, base *record.Template, r record.Request) (record.NewTemplate, error) {
	build := c.build(base)
	if err := checkSize(build); err != nil {
		return record.NewTemplate{}, err
	}
	shape, err := c.shape(base)
	if err != nil {
		return record.NewTemplate{}, err
	}
	life, err := c.lifecycle()
	if err != nil {
		return record.NewTemplate{}, err
	}
	content := build
	build.HadAuth = c.RegistryAuth != nil
	return record.NewTemplate{
		ID: space.NewID(space.PrefixTemplate), Operation: space.NewID(space.PrefixOperation), Project: project, Name: c.name(),
		Tags: slices.Compact(slices.Sorted(slices.Values(c.Tags))),
		Node: t.node, Shape: shape, Build: build, Lifecycle: life, Auth: c.RegistryAuth, Source: describe(build, base), Request: r,
		Content: func(uploads map[string]string) ([32]byte, error) { return hashContent(content, shape, uploads) },
	}, nil
}

// Get returns a project's template by its id, by a name or alias, or by either with a tag: NAME:TAG.
func (t *Templates) Get(ctx context.Context, project, ref string) (record.Template, error) {
	r, err := ParseRef(ref)
	if err != nil {
		return record.Template{}, err
	}
	return t.store.Template(ctx, project, r)
}

// List returns a page of a project's templates behind a position, newest first, and the position behind the page; the zero one after the
// last page.
func (t *Templates) List(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, record.Position, error) {
	limit = min(limit, MaxPage)
	rows, err := t.store.Templates(ctx, project, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// Delete writes that a template is to go, with its tags; a build that runs ends. It's a conflict while sandboxes or builds use it.
// Deleting one by its id again succeeds.
func (t *Templates) Delete(ctx context.Context, project, ref string) error {
	r, err := ParseRef(ref)
	if err != nil {
		return err
	}
	id := r.ID
	found, err := t.store.Template(ctx, project, r)
	switch {
	case err == nil:
		id, err = found.ID, own(project, found)
	case id != "": // it may be deleted already
		err = nil
	}
	if err != nil {
		return err
	}
	node, ended, err := t.store.DeleteTemplate(ctx, project, id)
	if err != nil {
		return err
	}
	t.bell.Ring(append(ended, id, wake.Node(node))...)
	return nil
}

// Settle returns a template when it isn't being built, when the wait has passed, or when ctx is over, whichever is first.
func (t *Templates) Settle(ctx context.Context, project, ref string, wait time.Duration) (record.Template, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	found, err := t.Get(context.WithoutCancel(ctx), project, ref)
	if err != nil || found.State != record.TemplateBuilding {
		return found, err
	}
	rung, stop := t.bell.Listen(found.ID)
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		found, err = t.Get(context.WithoutCancel(ctx), project, ref)
		if err != nil || found.State != record.TemplateBuilding {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-rung:
		case <-poll.C:
		}
	}
}
