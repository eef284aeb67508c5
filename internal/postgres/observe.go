package postgres

import (
	"context"
	"maps"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Observe writes what a node's report brought, in one transaction, and ends the operations that waited for it. It returns the ids of
// those operations. What contradicts a final state is left out.
func (s *Store) Observe(ctx context.Context, seen record.Seen) (ended []string, err error) {
	err = s.write(ctx, "record what node "+seen.Node+" reported", func(ctx context.Context, q *db.Queries) error {
		ended = nil
		if seen.Facts != nil {
			if err := seeNode(ctx, q, seen.Node, *seen.Facts); err != nil {
				return err
			}
		}
		for _, e := range seen.Executions {
			ids, err := observeExecution(ctx, q, e)
			if err != nil {
				return err
			}
			ended = append(ended, ids...)
		}
		for _, t := range seen.Templates {
			ids, err := observeTemplate(ctx, q, t)
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
		return nil
	})
	return ended, err
}

func seeNode(ctx context.Context, q *db.Queries, name string, f record.Facts) error {
	return q.SeeNode(ctx, db.SeeNodeParams{
		Name: name, Driver: f.Driver, Acceleration: f.Acceleration, Cpus: int32(f.CPUs), MemoryBytes: int64(f.MemoryBytes), Version: f.Version,
	})
}

func observeExecution(ctx context.Context, q *db.Queries, e record.ExecutionSeen) ([]string, error) {
	code, message := failureColumns(e.Error)
	n, err := q.ObserveExecution(ctx, db.ObserveExecutionParams{
		Execution: e.Route.Execution, State: string(e.State), ErrorCode: code, ErrorMessage: message, Since: e.Since,
	})
	if err != nil || n == 0 {
		return nil, err
	}
	if err := emitSandbox(ctx, q, happenedTo(e), e.Route.Sandbox, "", executionData(e)); err != nil {
		return nil, err
	}
	switch e.State {
	case space.ExecutionRunning:
		return endSandboxOperation(ctx, q, e.Route.Sandbox, record.CreateSandbox, nil)
	case space.ExecutionFailed, space.ExecutionLost:
		return endSandboxOperation(ctx, q, e.Route.Sandbox, record.CreateSandbox, e.Error)
	default:
		return endSandboxOperation(ctx, q, e.Route.Sandbox, record.DeleteSandbox, nil)
	}
}

// happenedTo is what an observation means for the sandbox.
func happenedTo(e record.ExecutionSeen) record.EventType {
	switch {
	case e.State == space.ExecutionRunning && e.Route.Epoch == 1:
		return record.EventSandboxRunning
	case e.State == space.ExecutionRunning:
		return record.EventSandboxStarted
	case e.State == space.ExecutionFailed:
		return record.EventSandboxFailed
	case e.State == space.ExecutionLost:
		return record.EventSandboxLost
	default:
		return record.EventSandboxDeleted
	}
}

// executionData is what an event says of the execution.
func executionData(e record.ExecutionSeen) map[string]any {
	out := map[string]any{"execution": e.Route.Execution, "epoch": e.Route.Epoch}
	maps.Copy(out, errorData(e.Error))
	return out
}
