package postgres

import (
	"context"
	"encoding/json"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

// Announce has to called with each project in which something happened, after it was committed. Call it before the store is used.
func (s *Store) Announce(to func(project string)) { s.announce = to }

type happenedKey struct{}

// happened collects the projects in which a transaction made something happen.
type happened map[string]bool

func (s *Store) tell(in happened) {
	if s.announce == nil {
		return
	}
	for project := range in {
		s.announce(project)
	}
}

// note remembers where something happened. It's known outside of this transaction when that has committed.
func note(ctx context.Context, projects ...string) {
	in, _ := ctx.Value(happenedKey{}).(happened)
	for _, p := range projects {
		in[p] = true
	}
}

// emitSandbox writes what happened to a sandbox, in the transaction that made it happen. The operation may be empty, the data nil.
func emitSandbox(ctx context.Context, q *db.Queries, t record.EventType, sandbox, operation string, data map[string]any) error {
	b, err := eventData(data)
	if err != nil {
		return err
	}
	projects, err := q.InsertSandboxEvent(ctx, db.InsertSandboxEventParams{Type: string(t), Sandbox: sandbox, Operation: orNull(operation), Data: b})
	note(ctx, projects...)
	return err
}

// emitTemplate writes what happened to a template.
func emitTemplate(ctx context.Context, q *db.Queries, t record.EventType, template, operation string, data map[string]any) error {
	b, err := eventData(data)
	if err != nil {
		return err
	}
	projects, err := q.InsertTemplateEvent(ctx, db.InsertTemplateEventParams{Type: string(t), Template: template, Operation: orNull(operation), Data: b})
	note(ctx, projects...)
	return err
}

// emitKey writes what happened to a key.
func emitKey(ctx context.Context, q *db.Queries, t record.EventType, project, key string, data map[string]any) error {
	b, err := eventData(data)
	if err != nil {
		return err
	}
	note(ctx, project)
	return q.InsertEvent(ctx, db.InsertEventParams{Project: project, Type: string(t), Key: &key, Data: b})
}

func eventData(data map[string]any) ([]byte, error) {
	if data == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(data)
}

// errorData is the data of an event about something that went wrong.
func errorData(e *space.Error) map[string]any {
	if e == nil {
		return nil
	}
	return map[string]any{"code": string(e.Code), "detail": e.Message}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
