// Package templates has what a project can do with its templates: build, get, list. It writes which ones are wanted; their node builds
// them and says what became of it.
package templates

import (
	"context"
	"regexp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// MaxPage bounds a page of the list.
const MaxPage = 100

// Store keeps templates.
type Store interface {
	BuildTemplate(ctx context.Context, n record.NewTemplate) (operation string, err error)
	Template(ctx context.Context, project, nameOrID string) (record.Template, error)
	Templates(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, error)
}

// Templates are the templates of all projects.
type Templates struct {
	store Store
	bell  *wake.Bell
	node  string // that builds them
}

// New returns the templates in a store; node builds new ones.
func New(store Store, bell *wake.Bell, node string) *Templates {
	return &Templates{store: store, bell: bell, node: node}
}

// Build writes that a recipe's template is wanted and returns the operation. If it's ready or being built, that is its operation; if
// its build failed, another template takes its name and is built.
func (t *Templates) Build(ctx context.Context, project, recipe string, r record.Request) (operation string, err error) {
	shape, err := shapeOf(recipe)
	if err != nil {
		return "", err
	}
	operation, err = t.store.BuildTemplate(ctx, record.NewTemplate{
		ID: space.NewID(space.PrefixTemplate), Operation: space.NewID(space.PrefixOperation), Project: project,
		Name: recipe, Recipe: recipe, Node: t.node, Shape: shape, Request: r,
	})
	if err != nil {
		return "", err
	}
	t.bell.Ring(wake.Node(t.node))
	return operation, nil
}

// nameRE is what a name or an id can be; anything else doesn't exist.
var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Get returns a project's template by name or id.
func (t *Templates) Get(ctx context.Context, project, nameOrID string) (record.Template, error) {
	if !nameRE.MatchString(nameOrID) {
		return record.Template{}, space.Errorf(space.CodeNotFound, "the template does not exist")
	}
	return t.store.Template(ctx, project, nameOrID)
}

// List returns a page of a project's templates behind a position, newest first, and the position behind the page; the zero one after
// the last page.
func (t *Templates) List(ctx context.Context, project string, after record.Position, limit int) ([]record.Template, record.Position, error) {
	limit = min(limit, MaxPage)
	rows, err := t.store.Templates(ctx, project, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}
