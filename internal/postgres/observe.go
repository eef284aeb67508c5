package postgres

import (
	"context"
	"maps"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Observe writes what a node's report brought, in one transaction, and ends the operations that waited for it. It returns the ids of
// those operations. What contradicts a final state is left out.
func (s *Store) Observe(ctx context.Context, seen record.Seen) (ended []string, err error) {
	err = s.write(ctx, "record what node "+seen.Node+" reported", func(ctx context.Context, q *db.Queries) error {
		ended = nil
		for _, e := range seen.Executions {
			ids, err := observeExecution(ctx, q, e)
			if err != nil {
				return err
			}
			ended = append(ended, ids...)
		}
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
		if seen.Facts == nil {
			return nil
		}
		// Last, as in the transactions that place a machine: they lock the sandbox and then the node.
		return seeNode(ctx, q, seen.Node, *seen.Facts)
	})
	return ended, err
}

func seeNode(ctx context.Context, q *db.Queries, name string, f record.Facts) error {
	return q.SeeNode(ctx, db.SeeNodeParams{
		Name: name, Driver: f.Driver, Acceleration: f.Acceleration, Cpus: int32(f.CPUs), MemoryBytes: int64(f.MemoryBytes), Version: f.Version,
	})
}

// observeExecution writes one observation. The sandbox is locked first, so that a verb that is being decided isn't decided by what has
// just ceased to be.
func observeExecution(ctx context.Context, q *db.Queries, e record.ExecutionSeen) ([]string, error) {
	rows, err := q.LockSandboxOfExecution(ctx, e.Route.Execution)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	code, message := failureColumns(e.Error)
	n, err := q.ObserveExecution(ctx, db.ObserveExecutionParams{
		Execution: e.Route.Execution, State: string(e.State), ErrorCode: code, ErrorMessage: message, Since: e.Since,
	})
	switch {
	case err != nil || n == 0:
		return nil, err
	case e.State == space.ExecutionGone:
		return endDeletion(ctx, q, e)
	case !rows[0].Current:
		return nil, nil
	}
	ended, err := endOperation(ctx, q, e)
	if err != nil {
		return nil, err
	}
	return ended, emitSandbox(ctx, q, happenedTo(e, rows[0].DiskState), e.Route.Sandbox, first(ended), executionData(e))
}

// endDeletion ends the delete of a sandbox of which nothing remains.
func endDeletion(ctx context.Context, q *db.Queries, e record.ExecutionSeen) ([]string, error) {
	running, err := runningOperation(ctx, q, e.Route.Sandbox)
	if err != nil || running == nil || running.Kind != record.DeleteSandbox {
		return nil, err
	}
	remains, err := q.SandboxRemains(ctx, e.Route.Sandbox)
	if err != nil || remains {
		return nil, err
	}
	if err := q.MarkDeleted(ctx, e.Route.Sandbox); err != nil {
		return nil, err
	}
	if err := emitSandbox(ctx, q, record.EventSandboxDeleted, e.Route.Sandbox, running.ID, executionData(e)); err != nil {
		return nil, err
	}
	return endSandboxOperation(ctx, q, e.Route.Sandbox, nil)
}

// endOperation ends the operation that waited for what the current execution has come to.
func endOperation(ctx context.Context, q *db.Queries, e record.ExecutionSeen) ([]string, error) {
	running, err := runningOperation(ctx, q, e.Route.Sandbox)
	if err != nil || running == nil {
		return nil, err
	}
	ended, failure := operations.Outcome(running.Kind, e)
	if !ended {
		return nil, nil
	}
	return endSandboxOperation(ctx, q, e.Route.Sandbox, failure)
}

func first(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

// happenedTo is what an observation of its current execution means for the sandbox. disk is the state of the one from whose disk that boots,
// if it does: a sandbox that couldn't be started is what it was before.
func happenedTo(e record.ExecutionSeen, disk *string) record.EventType {
	switch {
	case e.State == space.ExecutionRunning && e.Route.Epoch == 1:
		return record.EventSandboxRunning
	case e.State == space.ExecutionRunning:
		return record.EventSandboxStarted
	case e.State == space.ExecutionStopped, e.State == space.ExecutionFailed && text(disk) == string(space.ExecutionStopped):
		return record.EventSandboxStopped
	case e.State == space.ExecutionFailed && disk == nil:
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
