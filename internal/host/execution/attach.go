package execution

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/session"
)

// Attach attaches a client to a session of a running execution (see session.Set.Attach), or, when there's nothing to start, to what the
// sandbox has kept of one.
func (t *Table) Attach(ctx context.Context, r space.Route, q session.Request, send session.Send) error {
	if q.Spec == nil {
		kept, err := t.Kept(r)
		if err != nil {
			return err
		}
		return kept.Attach(ctx, q, send)
	}
	sessions, err := t.Sessions(r)
	if err != nil {
		return err
	}
	return sessions.Attach(ctx, q, send)
}

// Sessions returns the sessions of an execution that runs or has run.
func (t *Table) Sessions(r space.Route) (*session.Set, error) {
	e, err := t.find(r)
	if err != nil {
		return nil, err
	}
	return e.openSessions()
}

// find returns the execution of a route, all of which must match.
func (t *Table) find(r space.Route) (*execution, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.execs[r.Execution]; ok {
		return e, r.Match(e.route)
	}
	for _, e := range t.execs {
		if e.route.Sandbox == r.Sandbox {
			return nil, r.Match(e.route)
		}
	}
	return nil, space.Errorf(space.CodeExecutionLost, "the node has nothing of execution %s", r.Execution)
}
