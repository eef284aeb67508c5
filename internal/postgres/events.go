package postgres

import (
	"context"
	"encoding/json"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// numberRows bounds the events that are numbered in one transaction.
const numberRows = 1000

// NumberEvents gives numbers to the events that were committed and have none. One transaction at a time does so, each sees what the one
// before numbered, and an event has no number before it is committed: so whoever has read up to a number has missed none below it.
func (s *Store) NumberEvents(ctx context.Context) error {
	for {
		any, err := s.anyUnnumbered(ctx)
		if err != nil || !any {
			return err
		}
		if err := s.write(ctx, "number events", "", numberSome); err != nil {
			return err
		}
	}
}

func (s *Store) anyUnnumbered(ctx context.Context) (any bool, err error) {
	err = s.read(ctx, "look for new events", func(ctx context.Context, q *db.Queries) error {
		any, err = q.AnyUnnumberedEvent(ctx)
		return err
	})
	return any, err
}

func numberSome(ctx context.Context, q *db.Queries) error {
	if err := q.LockEventNumbers(ctx); err != nil {
		return err
	}
	_, err := q.NumberEvents(ctx, numberRows)
	return err
}

// Events returns a project's events in the order of their numbers, those that were committed before the call included.
func (s *Store) Events(ctx context.Context, project string, f record.EventFilter) ([]record.Event, error) {
	if err := s.NumberEvents(ctx); err != nil {
		return nil, err
	}
	var out []record.Event
	err := s.read(ctx, "list events", func(ctx context.Context, q *db.Queries) error {
		rows, err := q.Events(ctx, db.EventsParams{Project: project, After: f.After, Sandbox: f.Sandbox, MaxRows: int32(f.Limit)})
		if err != nil {
			return err
		}
		for _, r := range rows {
			e := record.Event{
				Number: r.Number, Type: record.EventType(r.Type), At: r.At,
				Sandbox: text(r.Sandbox), Template: text(r.Template), Operation: text(r.Operation), Key: text(r.Key),
			}
			if err := json.Unmarshal(r.Data, &e.Data); err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

// EventBounds returns where a reader of a project's events may begin. What was committed before the call is below the newest.
func (s *Store) EventBounds(ctx context.Context, project string) (record.EventBounds, error) {
	if err := s.NumberEvents(ctx); err != nil {
		return record.EventBounds{}, err
	}
	var out record.EventBounds
	err := s.read(ctx, "read the bounds of events", func(ctx context.Context, q *db.Queries) error {
		r, err := q.EventBounds(ctx, project)
		out = record.EventBounds{Newest: r.Newest, Pruned: r.EventsPruned}
		return missing(err, "project")
	})
	return out, err
}
