package postgres

import (
	"context"
	"encoding/json"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/quota"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// CreateSandbox writes the intent of a new sandbox, all in one transaction, and returns its operation: an earlier one if the request's
// Idempotency-Key has made it already.
func (s *Store) CreateSandbox(ctx context.Context, n record.NewSandbox) (operation string, err error) {
	metadata, err := json.Marshal(n.Metadata)
	if err != nil {
		return "", err
	}
	err = s.write(ctx, "create sandbox "+n.Route.Sandbox, func(ctx context.Context, q *db.Queries) error {
		operation, err = claim(ctx, q, n.Project, n.Request, n.Operation)
		if err != nil || operation != n.Operation {
			return err
		}
		return insertSandbox(ctx, q, n, metadata)
	})
	return operation, err
}

func insertSandbox(ctx context.Context, q *db.Queries, n record.NewSandbox, metadata []byte) error {
	if err := admit(ctx, q, n.Project, quota.Of(n.Shape)); err != nil {
		return err
	}
	if err := holdTemplate(ctx, q, n.Template); err != nil {
		return err
	}
	if err := q.InsertSandbox(ctx, db.InsertSandboxParams{
		ID: n.Route.Sandbox, Project: n.Project, Template: n.Template, Execution: n.Route.Execution,
		Vcpus: int32(n.Shape.VCPUs), MemoryBytes: int64(n.Shape.MemoryBytes), DiskBytes: int64(n.Shape.DiskBytes), Metadata: metadata,
	}); err != nil {
		return err
	}
	if err := q.InsertExecution(ctx, db.InsertExecutionParams{
		ID: n.Route.Execution, Sandbox: n.Route.Sandbox, Epoch: int64(n.Route.Epoch), PlacementKind: string(n.Route.Placement.Kind),
		Node: n.Route.Placement.Node, PodUid: n.Route.Placement.PodUID,
	}); err != nil {
		return err
	}
	if err := q.InsertSandboxOperation(ctx, db.InsertSandboxOperationParams{
		ID: n.Operation, Project: n.Project, Kind: string(record.CreateSandbox), Sandbox: n.Route.Sandbox,
	}); err != nil {
		return err
	}
	return emitSandbox(ctx, q, record.EventSandboxCreated, n.Route.Sandbox, n.Operation, nil)
}

// DeleteSandbox writes that a sandbox is to go. It returns the operation and the node that must act; of a sandbox that is already going
// or gone, the operation that it has. A create that still runs fails with it.
func (s *Store) DeleteSandbox(ctx context.Context, project, id string) (operation, node string, err error) {
	err = s.write(ctx, "delete sandbox "+id, func(ctx context.Context, q *db.Queries) error {
		row, err := q.LockSandbox(ctx, db.LockSandboxParams{Project: project, ID: id})
		if err != nil {
			return missing(err, "sandbox")
		}
		node = row.Node
		if row.Desired == string(record.DesiredDeleted) {
			operation, err = q.SandboxOperation(ctx, db.SandboxOperationParams{Sandbox: id, Kind: string(record.DeleteSandbox)})
			return err
		}
		operation = space.NewID(space.PrefixOperation)
		return desireDeleted(ctx, q, project, id, operation)
	})
	return operation, node, err
}

func desireDeleted(ctx context.Context, q *db.Queries, project, id, operation string) error {
	if err := q.DesireDeleted(ctx, id); err != nil {
		return err
	}
	if err := q.InsertSandboxOperation(ctx, db.InsertSandboxOperationParams{
		ID: operation, Project: project, Kind: string(record.DeleteSandbox), Sandbox: id,
	}); err != nil {
		return err
	}
	_, err := endSandboxOperation(ctx, q, id, record.CreateSandbox, space.Errorf(space.CodeConflict, "the sandbox was deleted before it ran"))
	return err
}

// Sandbox returns a project's sandbox; not_found if it has none of that id.
func (s *Store) Sandbox(ctx context.Context, project, id string) (record.Sandbox, error) {
	var out record.Sandbox
	err := s.read(ctx, "read sandbox "+id, func(ctx context.Context, q *db.Queries) error {
		row, err := q.Sandbox(ctx, db.SandboxParams{Project: project, ID: id})
		if err != nil {
			return missing(err, "sandbox")
		}
		out, err = sandbox(row)
		return err
	})
	return out, err
}

// Sandboxes returns up to limit sandboxes of a project behind a position that pass the filter, newest first.
func (s *Store) Sandboxes(ctx context.Context, project string, f record.SandboxFilter, after record.Position, limit int) ([]record.Sandbox, error) {
	metadata, err := json.Marshal(f.Metadata)
	if err != nil {
		return nil, err
	}
	p := db.SandboxesParams{Project: project, Metadata: metadata, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)}
	for _, c := range f.Conditions {
		p.Conditions = append(p.Conditions, string(c.Desired)+" "+string(c.Observed))
	}
	var out []record.Sandbox
	err = s.read(ctx, "list sandboxes", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Sandboxes(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range rows {
			one, err := sandbox(db.SandboxRow(row))
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

func sandbox(r db.SandboxRow) (record.Sandbox, error) {
	out := record.Sandbox{
		ID: r.ID, Project: r.Project, Template: r.Template, TemplateName: r.TemplateName, Desired: record.Desired(r.Desired), Revision: r.Revision,
		Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes), CreatedAt: r.CreatedAt, UpdatedAt: newest(r.UpdatedAt, r.ObservedAt),
		Execution: record.Execution{
			Route:    route(r.ID, r.Execution, r.Epoch, r.PlacementKind, r.Node, r.PodUid),
			Observed: observed(r.State), Error: failure(r.ErrorCode, r.ErrorMessage),
		},
	}
	return out, json.Unmarshal(r.Metadata, &out.Metadata)
}

func newest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}
