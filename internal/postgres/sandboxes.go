package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/postgres/db"
)

func insertExecution(ctx context.Context, q *db.Queries, e record.Execution) error {
	return q.InsertExecution(ctx, db.InsertExecutionParams{
		ID: e.Route.Execution, Sandbox: e.Route.Sandbox, Epoch: int64(e.Route.Epoch), PlacementKind: string(e.Route.Placement.Kind),
		Node: e.Route.Placement.Node, PodUid: e.Route.Placement.PodUID, DiskOf: orNull(e.DiskOf),
		Snapshot: orNull(e.Snapshot), Cold: e.Cold, Replaces: orNull(e.Replaces),
	})
}

// room is what a node has and carries. Until the transaction ends, no other places a machine there.
func room(ctx context.Context, q *db.Queries, node string) (record.Room, error) {
	if err := q.LockNode(later(ctx), node); err != nil {
		return record.Room{}, err
	}
	rows, err := q.NodeRoom(ctx, node) // a statement of its own: it sees what was committed before the lock was had
	if err != nil || len(rows) == 0 {
		return record.Room{}, err
	}
	return nodeRoom(rows[0]), nil
}

func nodeRoom(r db.NodeRoomRow) record.Room {
	return record.Room{
		Facts: record.Facts{
			CPUs: uint32(r.Cpus), MemoryBytes: uint64(r.MemoryBytes), SandboxMemoryBytes: uint64(r.SandboxMemoryBytes), DiskBytes: uint64(r.DiskBytes),
			DiskFreeBytes: uint64(r.DiskFreeBytes), DiskPressure: record.DiskPressure(r.DiskPressure),
			OverheadBytes: uint64(r.OverheadBytes), ReservedBytes: uint64(r.ReservedMemoryBytes),
		},
		Load: record.Load{Machines: uint64(r.LoadMachines), VCPUs: uint64(r.LoadVcpus), MemoryBytes: uint64(r.LoadMemoryBytes)},
	}
}

// UpdateSandbox changes what isn't its machine's. Conflict if it's going or gone.
func (s *Store) UpdateSandbox(ctx context.Context, project, id string, u record.Update) error {
	return s.write(ctx, "update sandbox", id, func(ctx context.Context, q *db.Queries) error {
		box, err := lockSandbox(ctx, q, project, id)
		if err != nil {
			return err
		}
		if box.Desired == record.DesiredDeleted {
			return space.Errorf(space.CodeConflict, "the sandbox is deleted")
		}
		if err := s.update(ctx, q, updated(box, u), u.Env); err != nil {
			return err
		}
		return emitSandbox(ctx, q, record.EventSandboxUpdated, id, "", nil)
	})
}

// updated is a sandbox after an update.
func updated(box record.Sandbox, u record.Update) record.Sandbox {
	if u.Metadata != nil {
		box.Metadata = u.Metadata
	}
	if u.Lifetime != nil || u.Forever {
		box.Lifetime = u.Lifetime
	}
	if u.Change != nil {
		box.Lifecycle = u.Change(box.Lifecycle)
	}
	return box
}

// update writes what an update may change; an environment of nil stays.
func (s *Store) update(ctx context.Context, q *db.Queries, box record.Sandbox, env map[string]string) error {
	metadata, err := json.Marshal(box.Metadata)
	if err != nil {
		return err
	}
	sealed, err := s.sealEnv(env, envContext(box.ID))
	if err != nil {
		return err
	}
	deadline, onExpiry := lifetimeColumns(box.Lifetime)
	after, action, rolling, err := lifecycleColumns(box.Lifecycle)
	if err != nil {
		return err
	}
	return q.UpdateSandbox(ctx, db.UpdateSandboxParams{
		AutoWake: box.Lifecycle.AutoWake, IdleAfterSeconds: nullWhenZero(after), IdleAction: orNull(action), IdleEgress: box.Lifecycle.Idle != nil && box.Lifecycle.Idle.Egress, Rolling: rolling,
		ID: box.ID, Metadata: metadata, SetEnv: env != nil, EnvSealed: sealed, ExpiresAt: deadline, OnExpiry: onExpiry,
	})
}

// SandboxEnv returns the environment of a project's sandbox; not_found if it has none of that id.
func (s *Store) SandboxEnv(ctx context.Context, project, id string) (map[string]string, error) {
	var out map[string]string
	err := s.read(ctx, "read the environment of sandbox "+id, func(ctx context.Context, q *db.Queries) error {
		sealed, err := q.SandboxEnv(ctx, db.SandboxEnvParams{Project: project, ID: id})
		if err != nil {
			return missing(err, "sandbox")
		}
		out, err = s.openEnv(sealed, envContext(id))
		return err
	})
	return out, err
}

// Sandbox returns a project's sandbox; not_found if it has none of that id.
func (s *Store) Sandbox(ctx context.Context, project, id string) (record.Sandbox, error) {
	out, err := s.sandboxes.find(ctx, id)
	if err == nil && out.Project != project {
		return record.Sandbox{}, missing(pgx.ErrNoRows, "sandbox")
	}
	return out, err
}

func readSandboxes(ctx context.Context, q *db.Queries, ids []string) (map[string]record.Sandbox, error) {
	rows, err := q.SandboxesByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[string]record.Sandbox, len(rows))
	for _, r := range rows {
		if out[r.ID], err = sandbox(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Sandboxes returns up to limit sandboxes of a project behind a position that pass the filter, newest first.
func (s *Store) Sandboxes(ctx context.Context, project string, f record.SandboxFilter, after record.Position, limit int) ([]record.Sandbox, error) {
	metadata, err := json.Marshal(f.Metadata)
	if err != nil {
		return nil, err
	}
	p := db.SandboxesParams{Project: project, Metadata: metadata, AnyState: f.AnyState, BeforeAt: beforeAt(after), BeforeID: after.ID, MaxRows: int32(limit)}
	for _, c := range f.Conditions {
		p.Conditions = append(p.Conditions, conditionText(c))
		p.WithDeleted = p.WithDeleted || c.Deleted
	}
	p.Observed = observedOf(f.Conditions)
	var out []record.Sandbox
	err = s.read(ctx, "list sandboxes", func(ctx context.Context, _ *db.Queries) error {
		rows, err := db.New(forThis{s.pool}).Sandboxes(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range rows {
			one, err := sandbox(db.SandboxesByIDRow(row))
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

// observedOf are the states of executions that conditions allow; none if a node that has said nothing yet is one of them.
func observedOf(all []record.SandboxCondition) []string {
	out := []string{}
	for _, c := range all {
		if c.Observed == space.ExecutionPending {
			return []string{}
		}
		if !slices.Contains(out, string(c.Observed)) {
			out = append(out, string(c.Observed))
		}
	}
	return out
}

// conditionText is a condition as the query has it.
func conditionText(c record.SandboxCondition) string {
	out := string(c.Desired) + " " + string(c.Observed)
	if c.Disk != "" {
		out += " " + string(c.Disk)
	}
	if c.Loaded {
		out += " loaded"
	}
	if c.Deleted {
		out += " deleted"
	}
	return out
}

func sandbox(r db.SandboxesByIDRow) (record.Sandbox, error) {
	out := record.Sandbox{
		ID: r.ID, Project: r.Project, Template: r.Template, TemplateName: r.TemplateName, Desired: record.Desired(r.Desired), Revision: r.Revision,
		Shape: shape(r.Vcpus, r.MemoryBytes, r.DiskBytes), Lifetime: lifetime(r.ExpiresAt, r.OnExpiry), Deleted: r.DeletedAt != nil,
		CreatedAt: r.CreatedAt, UpdatedAt: newest(r.UpdatedAt, r.ObservedAt),
		Execution: record.Execution{
			Route:    route(r.ID, r.Execution, r.Epoch, r.PlacementKind, r.Node, r.PodUid),
			Observed: observed(r.State), Error: failure(r.ErrorCode, r.ErrorMessage), DiskOf: text(r.DiskOf),
			Snapshot: text(r.Snapshot), Cold: r.Cold, Replaces: text(r.Replaces), HeldBy: text(r.HeldBy),
		},
		SuspendInto: text(r.SuspendInto), Parent: record.Parent{Sandbox: text(r.ParentSandbox), Snapshot: text(r.ParentSnapshot)},
	}
	out.ActiveAt, out.Lifecycle.AutoWake = r.ActiveAt, r.AutoWake
	if r.IdleAfterSeconds != nil && r.IdleAction != nil {
		out.Lifecycle.Idle = &record.Idle{After: time.Duration(*r.IdleAfterSeconds) * time.Second, Action: record.IdleAction(*r.IdleAction), Egress: r.IdleEgress}
	}
	var err error
	if out.Lifecycle.Rolling, err = readRolling(r.Rolling); err != nil {
		return record.Sandbox{}, err
	}
	if r.RecoveryAt != nil {
		out.Recovery = &record.Recovery{Snapshot: r.Recovery, Kind: record.SnapshotKind(r.RecoveryKind), At: *r.RecoveryAt}
	}
	if r.DiskOf != nil {
		out.Execution.Disk = observed(r.DiskState)
	}
	return out, json.Unmarshal(r.Metadata, &out.Metadata)
}

func lifetime(deadline *time.Time, onExpiry *string) *record.Lifetime {
	if deadline == nil || onExpiry == nil {
		return nil
	}
	return &record.Lifetime{Deadline: *deadline, OnExpiry: record.Expiry(*onExpiry)}
}

func lifetimeColumns(l *record.Lifetime) (deadline *time.Time, onExpiry *string) {
	if l == nil {
		return nil, nil
	}
	action := string(l.OnExpiry)
	return &l.Deadline, &action
}

// lifecycleColumns are what ends idleness, zero if nothing does, and how snapshots are taken, nil if none are.
func lifecycleColumns(l record.Lifecycle) (afterSeconds int32, action string, rolling []byte, err error) {
	if l.Idle != nil {
		afterSeconds, action = int32(l.Idle.After/time.Second), string(l.Idle.Action)
	}
	if l.Rolling != nil {
		rolling, err = json.Marshal(l.Rolling)
	}
	return afterSeconds, action, rolling, err
}

func nullWhenZero(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

func newest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}
