package sandboxes

import (
	"context"
	"regexp"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// MaxForks bounds the sandboxes that are made at once of one.
const MaxForks = 100

// Fork is what a client asks for of the sandboxes that are made of one. What is nil is as it is in that.
type Fork struct {
	Count    int
	Metadata map[string]string
	Lifetime *Lifetime
}

func (f Fork) check() error {
	if f.Count < 1 || f.Count > MaxForks {
		return space.FieldErrorf("count", "is %d: it must be 1 to %d", f.Count, MaxForks)
	}
	return checkMetadata(f.Metadata)
}

// Fork writes that sandboxes are to be made of one as it is, with memory, processes and files, and returns the operation: an earlier one if the request's
// Idempotency-Key has made it already. The sandbox itself goes on.
func (s *Sandboxes) Fork(ctx context.Context, project, id string, f Fork, r record.Request) (operation string, err error) {
	if err := f.check(); err != nil {
		return "", err
	}
	lifetime, err := f.Lifetime.at(time.Now())
	if err != nil {
		return "", err
	}
	env, err := s.Env(ctx, project, id)
	if err != nil {
		return "", err
	}
	children := make([]record.NewSandbox, f.Count)
	for i := range children {
		children[i] = record.NewSandbox{
			Route:     space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution)},
			Operation: space.NewID(space.PrefixOperation), Metadata: f.Metadata, Env: env, Lifetime: lifetime,
		}
	}
	operation, err = s.changeOnce(ctx, project, id, r, func(now record.Situation, operation string) (record.Change, error) {
		return fork(now, operation, space.NewID(space.PrefixSnapshot), children, time.Now())
	})
	if err != nil {
		return "", err
	}
	s.bell.Ring(wake.Deadlines)
	return operation, nil
}

// nameRE is what a snapshot may be called, but for what looks like an id.
var nameRE = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// idsBegin is how the ids of snapshots begin, and no name.
const idsBegin = string(space.PrefixSnapshot) + "_"

// isRef reports whether a text can be a snapshot's id or name.
func isRef(ref string) bool {
	return space.CheckID(space.PrefixSnapshot, ref) == nil || nameRE.MatchString(ref)
}

// Take writes that a snapshot of a sandbox is to be taken, which goes on, and returns the operation: an earlier one if the request's Idempotency-Key has
// made it already. One with a name stays when the sandbox is deleted.
func (s *Sandboxes) Take(ctx context.Context, project, id string, kind record.SnapshotKind, name string, r record.Request) (operation string, err error) {
	switch {
	case kind != record.SnapshotDisk && kind != record.SnapshotFull:
		return "", space.FieldErrorf("kind", "is %q: it must be disk or full", space.Clip(string(kind)))
	case strings.HasPrefix(name, idsBegin): // it would stand for another one
		return "", space.FieldErrorf("name", "%q begins as ids do: choose one that doesn't begin with %s", space.Clip(name), idsBegin)
	case name != "" && !nameRE.MatchString(name):
		return "", space.FieldErrorf("name", "%q is not a name: 1 to 64 lower-case letters, digits, dots, dashes and underscores, the first and last a letter or digit", space.Clip(name))
	}
	return s.changeOnce(ctx, project, id, r, func(now record.Situation, operation string) (record.Change, error) {
		return take(now, operation, record.NewSnapshot{ID: space.NewID(space.PrefixSnapshot), Kind: kind, Name: name})
	})
}

// Rollback writes that a sandbox is to go on from one of its snapshots, by id or name, or from its recovery point if that's empty, in a new execution. The one
// that it has ends when the new one runs. A cold one boots from the disk alone. The operation is an earlier one if the request's Idempotency-Key has begun it already: another
// one would give up what came after that.
func (s *Sandboxes) Rollback(ctx context.Context, project, id, snapshot string, cold bool, r record.Request) (operation string, err error) {
	return s.changeOnce(ctx, project, id, r, func(now record.Situation, operation string) (record.Change, error) {
		return rollback(now, operation, space.NewID(space.PrefixExecution), snapshot, cold, time.Now())
	})
}

// Wake has a sandbox run by whichever verb does, and returns that one's operation. Execution_lost of one that is lost: what is done about it is said by somebody.
func (s *Sandboxes) Wake(ctx context.Context, project, id string) (operation string, err error) {
	return s.change(ctx, project, id, func(now record.Situation, operation string) (record.Change, error) {
		return rouse(now, operation, space.NewID(space.PrefixExecution), time.Now())
	})
}

// Woken says what has become of an operation of Wake: nil while it runs, or why it failed, with its code; a conflict if it succeeded, for who finds that the sandbox
// sleeps.
func (s *Sandboxes) Woken(ctx context.Context, project, operation string) error {
	o, err := s.store.Operation(ctx, project, operation)
	switch {
	case err != nil:
		return err
	case !o.Ended():
		return nil
	case o.Error != nil:
		return space.Errorf(o.Error.Code, "the sandbox couldn't be woken: %s", o.Error.Message)
	default:
		return space.Errorf(space.CodeConflict, "the sandbox was woken, and sleeps again")
	}
}

// Snapshot returns a project's snapshot by id or name; not_found if it has none.
func (s *Sandboxes) Snapshot(ctx context.Context, project, ref string) (record.Snapshot, error) {
	if !isRef(ref) {
		return record.Snapshot{}, space.Errorf(space.CodeNotFound, "the snapshot does not exist")
	}
	return s.store.Snapshot(ctx, project, ref)
}

// Snapshots returns a page of a project's snapshots behind a position, newest first, of one sandbox if that isn't empty, and the position behind the page; the zero
// one after the last page.
func (s *Sandboxes) Snapshots(ctx context.Context, project, sandbox string, after record.Position, limit int) ([]record.Snapshot, record.Position, error) {
	if sandbox != "" {
		if _, err := s.Get(ctx, project, sandbox); err != nil {
			return nil, record.Position{}, err
		}
	}
	limit = min(limit, MaxPage)
	rows, err := s.store.Snapshots(ctx, project, sandbox, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// DeleteSnapshot writes that a project's snapshot is to go. Conflict while a sandbox is suspended into it, or is being made of it.
func (s *Sandboxes) DeleteSnapshot(ctx context.Context, project, ref string) error {
	if _, err := s.Snapshot(ctx, project, ref); err != nil {
		return err
	}
	node, err := s.store.DeleteSnapshot(ctx, project, ref)
	if err == nil {
		s.bell.Ring(wake.Node(node))
	}
	return err
}
