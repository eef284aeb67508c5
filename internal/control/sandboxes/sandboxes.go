// Package sandboxes has what a project can do with its sandboxes: create, get, list, update, stop, start, delete. It alone writes what is
// desired of one; what became of that is its node's to say. A mutation writes its intent in one transaction and then wakes the node.
package sandboxes

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/placement"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// MaxPage bounds a page of the list.
const MaxPage = 100

// Store keeps what is desired of sandboxes.
type Store interface {
	CreateSandbox(ctx context.Context, n record.NewSandbox, admit func(record.Room) error) (operation string, err error)
	ChangeSandbox(
		ctx context.Context, project, id, operation string, r record.Request, decide func(record.Situation) (record.Change, error),
	) (record.Changed, error)
	DeleteSandbox(ctx context.Context, project, id string, decide func(record.Situation) (record.Change, error)) (record.Changed, error)
	UpdateSandbox(ctx context.Context, project, id string, u record.Update) error
	Sandbox(ctx context.Context, project, id string) (record.Sandbox, error)
	SandboxEnv(ctx context.Context, project, id string) (map[string]string, error)
	Sandboxes(ctx context.Context, project string, f record.SandboxFilter, after record.Position, limit int) ([]record.Sandbox, error)
	Snapshot(ctx context.Context, project, ref string) (record.Snapshot, error)
	Snapshots(ctx context.Context, project, sandbox string, after record.Position, limit int) ([]record.Snapshot, error)
	DeleteSnapshot(ctx context.Context, project, ref string) (node string, err error)
	Made(ctx context.Context, project string, r record.Request) (string, error)
	Operation(ctx context.Context, project, id string) (record.Operation, error)
}

// Templates finds templates.
type Templates interface {
	Get(ctx context.Context, project, nameOrID string) (record.Template, error)
}

// Sandboxes are the sandboxes of all projects.
type Sandboxes struct {
	store     Store
	templates Templates
	bell      *wake.Bell
}

// New returns the sandboxes in a store.
func New(store Store, templates Templates, bell *wake.Bell) *Sandboxes {
	return &Sandboxes{store: store, templates: templates, bell: bell}
}

// Create writes the intent of a sandbox and returns the operation. The same request with the same Idempotency-Key returns the same one.
func (s *Sandboxes) Create(ctx context.Context, project string, c Create, r record.Request) (operation string, err error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	operation, n, err := s.prepare(ctx, project, c, r)
	if err != nil || operation != "" {
		return operation, err
	}
	operation, err = s.store.CreateSandbox(ctx, n, func(room record.Room) error { return placement.CheckNew(room, n.Shape, 1) })
	if err != nil {
		return "", err
	}
	s.bell.Ring(wake.Node(n.Route.Placement.Node))
	if n.Lifetime != nil {
		s.bell.Ring(wake.Deadlines)
	}
	return operation, nil
}

// prepare makes the record of the sandbox. Where that can't be made any more, it returns the operation that an earlier request with the same
// Idempotency-Key has started; else the store does.
func (s *Sandboxes) prepare(ctx context.Context, project string, c Create, r record.Request) (operation string, n record.NewSandbox, err error) {
	if n, err = s.intent(ctx, project, c, r); err == nil {
		return "", n, nil
	}
	operation, merr := s.store.Made(ctx, project, r)
	if merr != nil || operation != "" {
		return operation, n, merr
	}
	return "", n, err
}

// intent is the record of a new sandbox.
func (s *Sandboxes) intent(ctx context.Context, project string, c Create, r record.Request) (record.NewSandbox, error) {
	if c.Snapshot != "" {
		n, err := s.Snapshot(ctx, project, c.Snapshot)
		if err == nil {
			err = loadable(n)
		}
		if err != nil {
			return record.NewSandbox{}, err
		}
		t := record.Template{ID: n.Template, Node: n.Route.Placement.Node, Shape: n.Shape}
		if was, err := s.templates.Get(ctx, project, n.Template); err == nil {
			t.Lifecycle = was.Lifecycle
		} else if space.CodeOf(err) != space.CodeNotFound { // it may have gone, and its snapshots stay
			return record.NewSandbox{}, err
		}
		out, err := intent(project, c, t, r, time.Now())
		out.Snapshot, out.Parent = n.ID, n.Route.Sandbox
		return out, err
	}
	t, err := s.templates.Get(ctx, project, c.Template)
	if err != nil {
		return record.NewSandbox{}, err
	}
	if err := checkTemplate(c, t); err != nil {
		return record.NewSandbox{}, err
	}
	return intent(project, c, t, r, time.Now())
}

// intent is the record of a new sandbox of a template. That is on the node that made it, so that is where the sandbox goes.
func intent(project string, c Create, t record.Template, r record.Request, now time.Time) (record.NewSandbox, error) {
	lifetime, err := c.Lifetime.at(now)
	if err != nil {
		return record.NewSandbox{}, err
	}
	lifecycle, err := c.Lifecycle.Over(t.Lifecycle)
	return record.NewSandbox{
		Lifecycle: lifecycle,
		Route: space.Route{
			Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
			Placement: space.Placement{Kind: space.PlacementNode, Node: t.Node},
		},
		Operation: space.NewID(space.PrefixOperation), Project: project, Template: t.ID, Shape: c.shape(t.Shape),
		Metadata: orEmpty(c.Metadata), Env: c.Env, Lifetime: lifetime, Request: r,
	}, err
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Get returns a project's sandbox. One that is deleted can be read for a day.
func (s *Sandboxes) Get(ctx context.Context, project, id string) (record.Sandbox, error) {
	if err := checkID(id); err != nil {
		return record.Sandbox{}, err
	}
	return s.store.Sandbox(ctx, project, id)
}

// Env returns the environment that a project's sandbox gives its sessions. It may hold secrets.
func (s *Sandboxes) Env(ctx context.Context, project, id string) (map[string]string, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return s.store.SandboxEnv(ctx, project, id)
}

// List returns a page of a project's sandboxes that pass the filter behind a position, newest first, and the position behind the page;
// the zero one after the last page.
func (s *Sandboxes) List(ctx context.Context, project string, f Filter, after record.Position, limit int) ([]record.Sandbox, record.Position, error) {
	if err := f.check(); err != nil {
		return nil, record.Position{}, err
	}
	limit = min(limit, MaxPage)
	rows, err := s.store.Sandboxes(ctx, project, f.record(), after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// checkID keeps what can't be an id from the store; such a sandbox doesn't exist.
func checkID(id string) error {
	if space.CheckID(space.PrefixSandbox, id) != nil {
		return space.Errorf(space.CodeNotFound, "the sandbox does not exist")
	}
	return nil
}
