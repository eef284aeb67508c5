package postgres

import (
	"context"
	"maps"
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Observe writes what a node's report brought, in one transaction, and ends the operations that waited for it. It returns the ids of
// those operations. What contradicts a final state is left out.
func (s *Store) Observe(ctx context.Context, seen record.Seen) (ended []string, err error) {
	err = s.write(ctx, "record a report of node", seen.Node, func(ctx context.Context, q *db.Queries) (err error) {
		boxes, err := lockOfSnapshots(ctx, q, seen.Snapshots) // sandboxes are locked before operations
		if err != nil {
			return err
		}
		if ended, err = observeExecutions(ctx, q, seen.Executions); err != nil {
			return err
		}
		some, err := observeSnapshots(ctx, q, seen.Snapshots, boxes)
		if err != nil {
			return err
		}
		ended = append(ended, some...)
		for _, t := range seen.Templates {
			ids, err := s.observeTemplate(ctx, q, t)
			if err != nil {
				return err
			}
			ended = append(ended, ids...)
		}
		for _, l := range seen.Logs {
			if err := appendLog(ctx, q, l); err != nil {
				return err
			}
		}
		for _, e := range seen.Sessions {
			if err := endSession(ctx, q, seen.Node, e); err != nil {
				return err
			}
		}
		if err := seeUploads(ctx, q, seen.Node, seen.Uploads); err != nil {
			return err
		}
		if seen.Facts == nil {
			return nil
		}
		// Last, as in the transactions that place a machine: they lock the sandbox and then the node.
		return seeNode(ctx, q, seen.Node, *seen.Facts)
	})
	return ended, err
}

func seeNode(ctx context.Context, q *db.Queries, name string, f record.Facts) error {
	return q.SeeNode(later(ctx), db.SeeNodeParams{
		Name: name, Driver: f.Driver, Acceleration: f.Acceleration, Cpus: int32(f.CPUs), MemoryBytes: int64(f.MemoryBytes), Version: f.Version,
		SandboxMemoryBytes: int64(f.SandboxMemoryBytes), MemoryAvailableBytes: int64(f.MemoryAvailableBytes), DiskBytes: int64(f.DiskBytes), DiskFreeBytes: int64(f.DiskFreeBytes),
		DiskPressure: string(f.DiskPressure), OverheadBytes: int64(f.OverheadBytes), ReservedMemoryBytes: int64(f.ReservedBytes),
	})
}

// observation is a transaction that writes what was seen of executions.
type observation struct {
	q         *db.Queries
	boxes     map[string]db.SandboxesOfExecutionsRow // by execution
	endings   endings
	happened  db.InsertSandboxEventsParams
	fallBack  db.FallBackParams
	suspended []string                 // sandboxes
	unborn    db.InsertDeletionsParams // a fork's children that never came to run
}

// observeExecutions writes all observations. The sandboxes are locked first, so that a verb that is being decided isn't decided by what has just
// ceased to be. It returns the operations that have ended.
func observeExecutions(ctx context.Context, q *db.Queries, seen []record.ExecutionSeen) (ended []string, err error) {
	if len(seen) == 0 {
		return nil, nil
	}
	o := observation{q: q, boxes: map[string]db.SandboxesOfExecutionsRow{}}
	if err := o.lock(ctx, seen); err != nil {
		return nil, err
	}
	news, err := o.write(ctx, seen)
	if err != nil || len(news) == 0 {
		return nil, err
	}
	if err := o.endDeletions(ctx, news); err != nil {
		return nil, err
	}
	for _, e := range news {
		if err := o.follow(e); err != nil {
			return nil, err
		}
		if err := goOn(ctx, q, e); err != nil {
			return nil, err
		}
	}
	return o.finish(ctx)
}

func (o *observation) lock(ctx context.Context, seen []record.ExecutionSeen) error {
	var ids []string
	for _, e := range seen {
		ids = append(ids, e.Route.Execution)
	}
	if err := o.q.LockSandboxesOfExecutions(later(ctx), ids); err != nil {
		return err
	}
	rows, err := o.q.SandboxesOfExecutions(ctx, ids) // it sees what was committed before the locks were had
	for _, r := range rows {
		o.boxes[r.ID] = r
	}
	return err
}

// write writes the observations themselves, and returns those that are news.
func (o *observation) write(ctx context.Context, seen []record.ExecutionSeen) (news []record.ExecutionSeen, err error) {
	var p db.ObserveExecutionsParams
	for _, e := range seen {
		if e.Refused != "" { // it stays what it is, which is recorded
			news = append(news, e)
			continue
		}
		p.HeldBy = append(p.HeldBy, e.HeldBy)
		code, message := failureColumns(e.Error)
		p.Executions, p.States, p.Sinces = append(p.Executions, e.Route.Execution), append(p.States, string(e.State)), append(p.Sinces, e.Since)
		p.ErrorCodes, p.ErrorMessages = append(p.ErrorCodes, text(code)), append(p.ErrorMessages, text(message))
	}
	if len(p.Executions) == 0 {
		return news, nil
	}
	changed, err := o.q.ObserveExecutions(ctx, p)
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, e := range seen {
		if e.Refused != "" || !slices.Contains(changed, e.Route.Execution) {
			continue
		}
		news = append(news, e)
		if e.State == space.ExecutionGone {
			gone = append(gone, e.Route.Execution)
		}
	}
	if len(gone) > 0 {
		err = o.q.MarkExecutionsGone(later(ctx), gone)
	}
	return news, err
}

// endDeletions ends the deletes of sandboxes of which nothing remains.
func (o *observation) endDeletions(ctx context.Context, news []record.ExecutionSeen) error {
	last := map[string]record.ExecutionSeen{} // that was gone, by sandbox
	for _, e := range news {
		if e.State == space.ExecutionGone && record.OperationKind(o.boxes[e.Route.Execution].OperationKind) == record.DeleteSandbox {
			last[e.Route.Sandbox] = e
		}
	}
	if len(last) == 0 {
		return nil
	}
	remain, err := o.q.SandboxesThatRemain(ctx, slices.Collect(maps.Keys(last)))
	if err != nil {
		return err
	}
	for _, id := range remain {
		delete(last, id)
	}
	for _, e := range last {
		box := o.boxes[e.Route.Execution]
		o.endings.add(box.Operation, box.Fork, nil)
		if err := o.emit(record.EventSandboxDeleted, e, box.Operation); err != nil {
			return err
		}
	}
	return o.q.MarkDeleted(later(ctx), slices.Collect(maps.Keys(last)))
}

// follow ends the operation that waited for what the current execution has come to, and tells of it.
func (o *observation) follow(e record.ExecutionSeen) error {
	box := o.boxes[e.Route.Execution]
	if e.State == space.ExecutionGone || !box.Current {
		return nil
	}
	if e.Refused != "" && box.Operation != e.Refused {
		return nil // it was refused to an operation that has ended
	}
	ended := ""
	if box.Operation != "" {
		if over, failure := operations.Outcome(record.OperationKind(box.OperationKind), e); over {
			o.endings.add(box.Operation, box.Fork, failure)
			ended = box.Operation
			if failure != nil && box.Fork != "" && e.State == space.ExecutionFailed {
				o.forget(e.Route.Sandbox, box)
			}
		}
	}
	o.settle(e, box)
	if e.Refused != "" {
		return nil
	}
	return o.emit(happenedTo(e, box), e, ended)
}

// forget deletes a fork's child that never came to run: there is nothing in it, and its operation and the fork's say why.
func (o *observation) forget(sandbox string, box db.SandboxesOfExecutionsRow) {
	d := &o.unborn
	d.Ids, d.Projects, d.Sandboxes = append(d.Ids, space.NewID(space.PrefixOperation)), append(d.Projects, box.Project), append(d.Sandboxes, sandbox)
	d.Requests, d.Traceparents = append(d.Requests, ""), append(d.Traceparents, "")
}

// settle makes what is desired agree with what has come instead. The lifetime that a suspend was to end is over when it has come, not before: one that fails
// leaves the sandbox its deadline.
func (o *observation) settle(e record.ExecutionSeen, box db.SandboxesOfExecutionsRow) {
	if e.Refused == "" && e.State == space.ExecutionSuspended {
		o.suspended = append(o.suspended, e.Route.Sandbox)
	}
	switch {
	case e.Refused != "":
		o.desire(e.Route.Sandbox, operations.FallBack(e.State), "", "")
	case e.State == space.ExecutionFailed && box.Replaces != nil: // what it was to take the place of is as it was
		o.desire(e.Route.Sandbox, operations.FallBack(observed(box.ReplacedState)), *box.Replaces, text(box.ReplacedHeldBy))
	case e.State == space.ExecutionSuspended && record.Desired(box.Desired) != record.DesiredSuspended:
		o.desire(e.Route.Sandbox, record.DesiredSuspended, "", e.HeldBy)
	}
}

func (o *observation) desire(sandbox string, d record.Desired, execution, heldBy string) {
	p := &o.fallBack
	p.Ids, p.Desired, p.Executions, p.HeldBy = append(p.Ids, sandbox), append(p.Desired, string(d)), append(p.Executions, execution), append(p.HeldBy, heldBy)
}

// goOn has the sessions go on that were open in the snapshot which an execution was loaded from.
func goOn(ctx context.Context, q *db.Queries, e record.ExecutionSeen) error {
	var moved []string
	p := db.CopySessionsParams{Execution: e.Route.Execution}
	for _, s := range e.Sessions {
		if s.Session == s.Of {
			moved = append(moved, s.Session)
		} else {
			p.Ids, p.Originals = append(p.Ids, s.Session), append(p.Originals, s.Of)
		}
	}
	if len(moved) > 0 {
		if err := q.MoveSessions(ctx, db.MoveSessionsParams{Execution: e.Route.Execution, Sessions: moved}); err != nil {
			return err
		}
	}
	if len(p.Ids) == 0 {
		return nil
	}
	return q.CopySessions(ctx, p)
}

func (o *observation) emit(t record.EventType, e record.ExecutionSeen, operation string) error {
	project := o.boxes[e.Route.Execution].Project
	if project == "" {
		return nil // it has been pruned
	}
	data, err := eventData(executionData(e))
	p := &o.happened
	p.Projects = append(p.Projects, project)
	p.Types, p.Sandboxes = append(p.Types, string(t)), append(p.Sandboxes, e.Route.Sandbox)
	p.Operations, p.Data = append(p.Operations, operation), append(p.Data, string(data))
	return err
}

func (o *observation) finish(ctx context.Context) (ended []string, err error) {
	if len(o.fallBack.Ids) > 0 {
		if err := o.q.FallBack(later(ctx), o.fallBack); err != nil {
			return nil, err
		}
	}
	if len(o.suspended) > 0 {
		if err := o.q.EndLifetimes(later(ctx), o.suspended); err != nil {
			return nil, err
		}
	}
	if ended, err = o.endings.write(ctx, o.q); err != nil {
		return nil, err
	}
	if len(o.unborn.Ids) > 0 {
		if err := o.q.DesireDeleted(later(ctx), o.unborn.Sandboxes); err != nil {
			return nil, err
		}
		if err := o.q.InsertDeletions(later(ctx), o.unborn); err != nil {
			return nil, err
		}
	}
	if len(o.happened.Sandboxes) == 0 {
		return ended, nil
	}
	note(ctx, o.happened.Projects...)
	return ended, o.q.InsertSandboxEvents(later(ctx), o.happened)
}

// happenedTo is what an observation of its current execution means for the sandbox. One that couldn't be started, restored or rolled back is what it was
// before.
func happenedTo(e record.ExecutionSeen, box db.SandboxesOfExecutionsRow) record.EventType {
	state := e.State
	if state == space.ExecutionFailed && box.Replaces != nil {
		if state = observed(box.ReplacedState); state == space.ExecutionRunning {
			return record.EventSandboxUpdated // as it was all the time
		}
	}
	switch {
	case state == space.ExecutionRunning && observed(box.State) == space.ExecutionPaused:
		return record.EventSandboxResumed
	case state == space.ExecutionRunning && e.Route.Epoch == 1:
		return record.EventSandboxRunning
	case state == space.ExecutionRunning && box.Snapshot != nil:
		return record.EventSandboxRestored
	case state == space.ExecutionRunning:
		return record.EventSandboxStarted
	case state == space.ExecutionPaused:
		return record.EventSandboxPaused
	case state == space.ExecutionSuspended:
		return record.EventSandboxSuspended
	case state == space.ExecutionStopped, state == space.ExecutionFailed && text(box.DiskState) == string(space.ExecutionStopped):
		return record.EventSandboxStopped
	case state == space.ExecutionFailed && box.DiskState == nil:
		return record.EventSandboxFailed
	default:
		return record.EventSandboxLost
	}
}

// executionData is what an event says of the execution.
func executionData(e record.ExecutionSeen) map[string]any {
	out := map[string]any{"execution": e.Route.Execution, "epoch": e.Route.Epoch}
	maps.Copy(out, errorData(e.Error))
	return out
}
