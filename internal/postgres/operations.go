package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
	"github.com/space-platform/space/internal/telemetry"
)

// Operation returns a project's operation; not_found if it has none of that id.
func (s *Store) Operation(ctx context.Context, project, id string) (record.Operation, error) {
	out, err := s.operations.find(ctx, id)
	if err == nil && out.Project != project {
		return record.Operation{}, missing(pgx.ErrNoRows, "operation")
	}
	return out, err
}

func readOperations(ctx context.Context, q *db.Queries, ids []string) (map[string]record.Operation, error) {
	rows, err := q.OperationsByID(ctx, ids)
	out := make(map[string]record.Operation, len(rows))
	for _, r := range rows {
		o := record.Operation{
			ID: r.ID, Project: r.Project, Kind: record.OperationKind(r.Kind), Status: record.OperationStatus(r.Status),
			Sandbox: text(r.Sandbox), Template: text(r.Template), Error: fieldFailure(r.ErrorCode, r.ErrorMessage, r.ErrorField), Asked: text(r.Request),
			CreatedAt: r.CreatedAt, Snapshot: text(r.Snapshot), Children: r.Children,
		}
		if r.EndedAt != nil {
			o.EndedAt = *r.EndedAt
		}
		out[o.ID] = o
	}
	return out, err
}

// insertSandboxOperation writes that an operation of a sandbox runs, and which request asked for it. Unless it's made of a snapshot that is there, it holds the sandbox.
func insertSandboxOperation(ctx context.Context, q *db.Queries, project, sandbox, snapshot string, c record.Change) error {
	request, traceparent := causeColumns(ctx)
	return q.InsertSandboxOperation(later(ctx), db.InsertSandboxOperationParams{
		ID: c.Operation, Project: project, Kind: string(c.Kind), Sandbox: sandbox, Request: request, Traceparent: traceparent, Snapshot: orNull(snapshot),
		Holds: c.Loads == "",
	})
}

// insertTemplateOperation writes that a template's build runs, and which request asked for it.
func insertTemplateOperation(ctx context.Context, q *db.Queries, n record.NewTemplate, template string) error {
	request, traceparent := causeColumns(ctx)
	return q.InsertTemplateOperation(ctx, db.InsertTemplateOperationParams{
		ID: n.Operation, Project: n.Project, Template: template, Request: request, Traceparent: traceparent,
	})
}

// causeColumns are what a context belongs to, as an operation keeps it.
func causeColumns(ctx context.Context) (request, traceparent *string) {
	c := telemetry.CauseOf(ctx)
	return orNull(c.Request), orNull(c.Traceparent)
}

// cause is their inverse.
func cause(request, traceparent *string) telemetry.Cause {
	return telemetry.Cause{Request: text(request), Traceparent: text(traceparent)}
}

// appendForks adds the fork that an ended operation is part of.
func appendForks(forks []string, partOf *string) []string {
	if partOf == nil || slices.Contains(forks, *partOf) {
		return forks
	}
	return append(forks, *partOf)
}

// endForks ends those of the forks of which no child is being made any more, and returns them with what has ended before.
func endForks(ctx context.Context, q *db.Queries, ended, forks []string) ([]string, error) {
	if len(forks) == 0 {
		return ended, nil
	}
	held, err := q.LockForks(ctx, forks)
	if err != nil || len(held) == 0 {
		return ended, err
	}
	over, err := q.EndForks(ctx, held) // a statement of its own: it sees what was committed before the lock was had
	return append(ended, over...), err
}

func endTemplateOperation(ctx context.Context, q *db.Queries, template string, failed *space.Error) ([]string, error) {
	code, message := failureColumns(failed)
	return q.EndTemplateOperation(ctx, db.EndTemplateOperationParams{
		Template: template, Status: string(endStatus(failed)), ErrorCode: code, ErrorMessage: message, ErrorField: fieldColumn(failed),
	})
}

func endStatus(failed *space.Error) record.OperationStatus {
	if failed != nil {
		return record.OperationFailed
	}
	return record.OperationSucceeded
}

// endings are operations that run and end in a transaction, which has locked their sandboxes.
type endings struct {
	of    db.EndOperationsParams
	forks []string // that they're part of
	letGo []string // that go on, and no longer hold their sandbox
}

// supersede ends the operation that holds a sandbox, which is to go: nil if none does. A fork isn't ended but lets go: it ends with its children, which are loaded from a
// snapshot that may come yet.
func (e *endings) supersede(running *record.Operation, fork string, failed *space.Error) {
	switch {
	case running == nil:
	case running.Kind == record.ForkSandbox:
		e.letGo = append(e.letGo, running.ID)
	default:
		e.add(running.ID, fork, failed)
	}
}

// add ends an operation, which is part of a fork if that isn't empty: failed if there is an error, else succeeded.
func (e *endings) add(operation, fork string, failed *space.Error) {
	if slices.Contains(e.of.Ids, operation) {
		return
	}
	code, message := failureColumns(failed)
	e.of.Ids, e.of.ErrorCodes, e.of.ErrorMessages = append(e.of.Ids, operation), append(e.of.ErrorCodes, text(code)), append(e.of.ErrorMessages, text(message))
	if fork != "" {
		e.forks = appendForks(e.forks, &fork)
	}
}

// write ends the operations, and the forks that end with them. It returns their ids.
func (e *endings) write(ctx context.Context, q *db.Queries) ([]string, error) {
	if len(e.letGo) > 0 {
		if err := q.LetGo(later(ctx), e.letGo); err != nil {
			return nil, err
		}
	}
	if len(e.of.Ids) == 0 {
		return nil, nil
	}
	if err := q.EndOperations(later(ctx), e.of); err != nil {
		return nil, err
	}
	return endForks(ctx, q, e.of.Ids, e.forks)
}
