package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
	"github.com/space-platform/space/internal/telemetry"
)

// deletion is one sandbox that is to be deleted, and what became of it.
type deletion struct {
	turn
	project, sandbox string
	decide           func(record.Situation) (record.Change, error)
	out              record.Changed
}

// DeleteSandbox is ChangeSandbox for a verb that deletes, whatever the sandbox is: it needs to know neither of room nor of epochs. Sandboxes that are deleted
// at the same time share a transaction.
func (s *Store) DeleteSandbox(ctx context.Context, project, id string, decide func(record.Situation) (record.Change, error)) (record.Changed, error) {
	d := &deletion{turn: newTurn(ctx), project: project, sandbox: id, decide: decide}
	if d.err = ctx.Err(); d.err == nil {
		s.deletions.ask("", d)
		<-d.done
	}
	if d.err != nil {
		return record.Changed{}, explain("delete sandbox "+id, d.err)
	}
	return d.out, nil
}

func (s *Store) deleteTogether(_ string, all []*deletion) {
	together(all, func(d *deletion) string { return d.sandbox }, s.deleteInOne)
}

// deleteInOne deletes all in one transaction. Those that are refused have an error of their own.
func (s *Store) deleteInOne(all []*deletion) error {
	ctx := context.WithoutCancel(all[0].ctx)
	return s.write(ctx, "delete sandboxes", "", func(ctx context.Context, q *db.Queries) error {
		now, err := standing(ctx, q, all)
		if err != nil {
			return err
		}
		var w deletions
		for _, d := range all {
			if d.err = d.decided(ctx, q, now[d.sandbox], &w); d.err != nil && !typed(d.err) {
				return d.err
			}
		}
		return w.write(ctx, q)
	})
}

// standing locks the sandboxes that are to be deleted, and reads how those stand that there are.
func standing(ctx context.Context, q *db.Queries, all []*deletion) (map[string]stand, error) {
	var ids []string
	for _, d := range all {
		ids = append(ids, d.sandbox)
	}
	if err := q.LockSandboxes(later(ctx), ids); err != nil {
		return nil, err
	}
	boxes, err := readSandboxes(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	running, err := q.RunningOperations(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := map[string]stand{}
	for _, box := range boxes {
		out[box.ID] = stand{Situation: record.Situation{Sandbox: box}}
	}
	for _, r := range running {
		n := out[r.Sandbox]
		n.Running = &record.Operation{ID: r.ID, Kind: record.OperationKind(r.Kind), Status: record.OperationRunning, Sandbox: r.Sandbox}
		n.fork = r.Fork
		out[r.Sandbox] = n
	}
	return out, nil
}

// stand is how a sandbox stands, and the fork that what runs is part of.
type stand struct {
	record.Situation
	fork string
}

// deletions is what is written of all that are deleted in one transaction.
type deletions struct {
	begun db.InsertDeletionsParams
	ended endings     // what they supersede
	of    []*deletion // those that supersede something
}

// decided enters what a verb decides of how its sandbox stands.
func (d *deletion) decided(ctx context.Context, q *db.Queries, now stand, w *deletions) error {
	box := now.Sandbox
	if box.ID == "" || box.Project != d.project {
		return space.Errorf(space.CodeNotFound, "the sandbox does not exist")
	}
	c, err := d.decide(now.Situation)
	if err != nil {
		return err
	}
	d.out = record.Changed{Operation: cmp.Or(c.Same, c.Operation), Node: box.Execution.Route.Placement.Node}
	switch {
	case c.Same != "":
		return nil
	case c.Done:
		return done(telemetry.CauseOf(d.ctx).In(ctx), q, box, c, &d.out)
	case c.Kind != record.DeleteSandbox || c.Desired != record.DesiredDeleted:
		return fmt.Errorf("operation %s isn't a deletion", c.Operation)
	}
	request, traceparent := causeColumns(d.ctx)
	b := &w.begun
	b.Ids, b.Projects, b.Sandboxes = append(b.Ids, c.Operation), append(b.Projects, d.project), append(b.Sandboxes, d.sandbox)
	b.Requests, b.Traceparents = append(b.Requests, text(request)), append(b.Traceparents, text(traceparent))
	if now.Running != nil {
		w.ended.supersede(now.Running, now.fork, c.Supersede)
		w.of = append(w.of, d)
	}
	return nil
}

func (w *deletions) write(ctx context.Context, q *db.Queries) error {
	if len(w.begun.Ids) == 0 {
		return nil
	}
	ended, err := w.ended.write(ctx, q)
	if err != nil {
		return err
	}
	for _, d := range w.of {
		d.out.Ended = slices.Clone(ended) // and what others ended: to tell of it twice does no harm
	}
	if err := q.DesireDeleted(later(ctx), w.begun.Sandboxes); err != nil {
		return err
	}
	if err := deleteAutomaticSnapshots(ctx, q, w.begun.Sandboxes...); err != nil { // what needed them needs them no more
		return err
	}
	return q.InsertDeletions(later(ctx), w.begun)
}
