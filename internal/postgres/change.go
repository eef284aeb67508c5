package postgres

import (
	"cmp"
	"context"
	"fmt"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// ChangeSandbox does what decide says of a sandbox that nobody else changes meanwhile, in one transaction. It returns the operation to
// answer with, the node that must act, and the operations that were ended. A request whose Idempotency-Key has made one already is answered with that.
func (s *Store) ChangeSandbox(
	ctx context.Context, project, id, operation string, r record.Request, decide func(record.Situation) (record.Change, error),
) (record.Changed, error) {
	var out record.Changed
	err := s.write(ctx, "change sandbox", id, func(ctx context.Context, q *db.Queries) error {
		if earlier, err := claim(ctx, q, project, r, operation); err != nil || earlier != operation {
			out.Operation = earlier
			return err
		}
		now, err := situation(ctx, q, project, id)
		if err != nil {
			return err
		}
		change, err := decide(now.Situation)
		if err != nil {
			return err
		}
		out = record.Changed{Node: now.Sandbox.Execution.Route.Placement.Node}
		return s.apply(ctx, q, now, change, &out)
	})
	return out, err
}

// lockSandbox reads a sandbox that nobody else changes until the transaction ends.
func lockSandbox(ctx context.Context, q *db.Queries, project, id string) (record.Sandbox, error) {
	if _, err := q.LockSandbox(later(ctx), db.LockSandboxParams{Project: project, ID: id}); err != nil {
		return record.Sandbox{}, err
	}
	boxes, err := readSandboxes(ctx, q, []string{id})
	if err != nil {
		return record.Sandbox{}, err
	}
	box := boxes[id]
	if box.ID == "" || box.Project != project {
		return record.Sandbox{}, space.Errorf(space.CodeNotFound, "the sandbox does not exist")
	}
	return box, nil
}

func situation(ctx context.Context, q *db.Queries, project, id string) (stand, error) {
	box, err := lockSandbox(ctx, q, project, id)
	if err != nil {
		return stand{}, err
	}
	standing, err := q.Standing(ctx, id)
	var running *record.Operation
	if standing.Operation != "" {
		running = &record.Operation{ID: standing.Operation, Kind: record.OperationKind(standing.Kind), Status: record.OperationRunning, Sandbox: id}
	}
	return stand{fork: standing.Fork, Situation: record.Situation{
		Sandbox: box, Epoch: uint64(standing.Epoch), Running: running,
		Room: func(more record.Usage) (record.Room, error) {
			// The project's lock comes before the node's, as where sandboxes are created.
			if err := admit(ctx, q, project, more); err != nil {
				return record.Room{}, err
			}
			return room(ctx, q, box.Execution.Route.Placement.Node)
		},
		Rolled:   func() (record.Rolled, error) { return rolled(ctx, q, id) },
		Snapshot: func(ref string) (record.Snapshot, error) { return holdSnapshot(ctx, q, project, ref) },
	}}, err
}

func (s *Store) apply(ctx context.Context, q *db.Queries, now stand, c record.Change, out *record.Changed) error {
	box := now.Sandbox
	switch {
	case c.Same != "":
		out.Operation = c.Same
		return nil
	case c.Done:
		return done(ctx, q, box, c, out)
	}
	if c.Kind == "" { // a snapshot alone
		return insertSnapshot(ctx, q, box, *c.Snapshot)
	}
	out.Operation = c.Operation
	if c.Supersede != nil {
		var e endings
		e.supersede(now.Running, now.fork, c.Supersede)
		ended, err := e.write(ctx, q)
		if err != nil {
			return err
		}
		out.Ended = ended
	}
	snapshot := cmp.Or(c.Execution.Snapshot, c.Loads)
	if c.Snapshot != nil {
		snapshot = c.Snapshot.ID
		if err := insertSnapshot(ctx, q, box, *c.Snapshot); err != nil {
			return err
		}
	}
	if c.Execution.Route.Execution != "" {
		if err := insertExecution(ctx, q, c.Execution); err != nil {
			return err
		}
	}
	var grace *int32
	if c.Desired == record.DesiredStopped {
		millis := int32(c.Grace.Milliseconds())
		grace = &millis
	}
	if err := q.Desire(later(ctx), db.DesireParams{
		StopGraceMillis: grace, SuspendInto: suspendInto(c), ID: box.ID, Desired: orNull(string(c.Desired)), Execution: orNull(c.Execution.Route.Execution),
		DropLifetime: c.DropLifetime, Unasked: c.Unasked,
	}); err != nil {
		return fmt.Errorf("write what is desired: %w", err)
	}
	if c.Desired == record.DesiredDeleted { // what needed its snapshots needs them no more
		if err := deleteAutomaticSnapshots(ctx, q, box.ID); err != nil {
			return err
		}
	}
	if err := insertSandboxOperation(ctx, q, box.Project, box.ID, snapshot, c); err != nil || len(c.Children) == 0 {
		return err
	}
	return s.insertChildren(ctx, q, c.Children)
}

// insertChildren writes the sandboxes that a fork makes, after its operation.
func (s *Store) insertChildren(ctx context.Context, q *db.Queries, children []record.NewSandbox) error {
	all := make([]*creation, len(children))
	for i, n := range children {
		c, err := s.newCreation(ctx, n)
		if err != nil {
			return err
		}
		all[i] = c
	}
	note(ctx, children[0].Project)
	return q.CreateSandboxes(later(ctx), newSandboxes(all))
}

// suspendInto is the snapshot of a change that suspends; nil of another one.
func suspendInto(c record.Change) *string {
	if c.Desired != record.DesiredSuspended || c.Snapshot == nil {
		return nil
	}
	return &c.Snapshot.ID
}

// done answers for a verb that has nothing to do.
func done(ctx context.Context, q *db.Queries, box record.Sandbox, c record.Change, out *record.Changed) error {
	before, err := q.SucceededSandboxOperation(ctx, db.SucceededSandboxOperationParams{Sandbox: box.ID, Kind: string(c.Kind)})
	if err != nil {
		return err
	}
	if len(before) > 0 {
		out.Operation = before[0]
		return nil
	}
	out.Operation = c.Operation
	request, traceparent := causeColumns(ctx)
	return q.InsertEndedSandboxOperation(ctx, db.InsertEndedSandboxOperationParams{
		ID: c.Operation, Project: box.Project, Kind: string(c.Kind), Sandbox: box.ID, Request: request, Traceparent: traceparent,
	})
}
