package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"

	gen "github.com/space-platform/space/api/gen/http"
)

// The documents of a sandbox's past.
type (
	Snapshot       = gen.Snapshot
	SnapshotCreate = gen.SnapshotCreate
	SandboxFork    = gen.SandboxFork
)

// PauseSandbox has a sandbox's machine stand still and waits until it does; its memory stays in its node's, and is lost with that.
func (c *Client) PauseSandbox(ctx context.Context, id string) (Sandbox, error) {
	op, err := decode[Operation](c.api.PauseSandbox(ctx, id, &gen.PauseSandboxParams{Wait: waitParameter(awaitEach)}))
	return c.changed(ctx, "pause", id, op, err)
}

// ResumeSandbox has a paused sandbox run on and waits until it does.
func (c *Client) ResumeSandbox(ctx context.Context, id string) (Sandbox, error) {
	op, err := decode[Operation](c.api.ResumeSandbox(ctx, id, &gen.ResumeSandboxParams{Wait: waitParameter(awaitEach)}))
	return c.changed(ctx, "resume", id, op, err)
}

// SuspendSandbox keeps a sandbox's memory, devices and disk durably, ends its machine, and waits until all of that is so.
func (c *Client) SuspendSandbox(ctx context.Context, id string) (Sandbox, error) {
	op, err := decode[Operation](c.api.SuspendSandbox(ctx, id, &gen.SuspendSandboxParams{Wait: waitParameter(awaitEach)}))
	return c.changed(ctx, "suspend", id, op, err)
}

// RestoreSandbox has a suspended sandbox go on where it was and waits until it runs; it's a new execution. A cold one boots from the disk alone.
func (c *Client) RestoreSandbox(ctx context.Context, id string, cold bool) (Sandbox, error) {
	op, err := decode[Operation](c.api.RestoreSandbox(ctx, id, &gen.RestoreSandboxParams{Wait: waitParameter(awaitEach), Cold: whenTrue(cold)}))
	return c.changed(ctx, "restore", id, op, err)
}

// WakeSandbox starts, resumes or restores a sandbox, whichever it needs, and waits until it runs. A lost one is refused.
func (c *Client) WakeSandbox(ctx context.Context, id string) (Sandbox, error) {
	op, err := decode[Operation](c.api.WakeSandbox(ctx, id, &gen.WakeSandboxParams{Wait: waitParameter(awaitEach)}))
	return c.changed(ctx, "wake", id, op, err)
}

// RollbackSandbox has a sandbox go on from one of its snapshots, by id or name, or from its recovery point if that's empty, and waits until it runs. What it was
// is given up then. A cold one boots from the snapshot's disk alone.
func (c *Client) RollbackSandbox(ctx context.Context, id, snapshot string, cold bool) (Sandbox, error) {
	op, err := decode[Operation](c.api.RollbackSandbox(ctx, id, &gen.RollbackSandboxParams{
		IdempotencyKey: idempotencyKey(), Wait: waitParameter(awaitEach), Snapshot: given(snapshot), Cold: whenTrue(cold),
	}))
	return c.changed(ctx, "roll back", id, op, err)
}

// ForkSandbox makes sandboxes of one as it is, and waits until they run. Whatever the error, those that are returned exist: those that never came to run don't stay.
func (c *Client) ForkSandbox(ctx context.Context, id string, in SandboxFork) ([]Sandbox, error) {
	op, err := c.BeginForkSandbox(ctx, id, in)
	if err != nil {
		return nil, err
	}
	children := *op.Children
	if _, err = c.Await(ctx, op); err != nil {
		err = fmt.Errorf("fork sandbox %s: %w", id, err)
	}
	var out []Sandbox
	for _, child := range children {
		s, failure := c.GetSandbox(ctx, child)
		if failure != nil {
			return out, cmp.Or(err, failure) // why there are none is the fork's to say
		}
		if !slices.Contains(unborn, s.State) {
			out = append(out, s)
		}
	}
	return out, err
}

// unborn are the states of a fork's child in which nothing of it is left, or will be.
var unborn = []SandboxState{gen.SandboxStateFailed, gen.SandboxStateDeleting, gen.SandboxStateDeleted}

// BeginForkSandbox orders sandboxes of one as it is and returns the operation at once; its Children have the ids.
func (c *Client) BeginForkSandbox(ctx context.Context, id string, in SandboxFork) (Operation, error) {
	op, err := decode[Operation](c.api.ForkSandbox(ctx, id, &gen.ForkSandboxParams{IdempotencyKey: idempotencyKey()}, in))
	if err == nil && op.Children == nil {
		err = fmt.Errorf("the answer names no children")
	}
	if err != nil {
		return op, fmt.Errorf("fork sandbox %s: %w", id, err)
	}
	return op, nil
}

// CreateSnapshot takes a snapshot of a sandbox, which goes on, and waits until it's durable.
func (c *Client) CreateSnapshot(ctx context.Context, id string, in SnapshotCreate) (Snapshot, error) {
	p := &gen.CreateSnapshotParams{IdempotencyKey: idempotencyKey(), Wait: waitParameter(awaitEach)}
	op, err := decode[Operation](c.api.CreateSnapshot(ctx, id, p, in))
	if err == nil {
		op, err = c.Await(ctx, op)
	}
	if err == nil && op.Snapshot == nil {
		err = fmt.Errorf("it was deleted meanwhile")
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("take a snapshot of sandbox %s: %w", id, err)
	}
	return *op.Snapshot, nil
}

// GetSnapshot returns a snapshot by id or name.
func (c *Client) GetSnapshot(ctx context.Context, ref string) (Snapshot, error) {
	s, err := decode[Snapshot](c.api.GetSnapshot(ctx, ref))
	if err != nil {
		return s, fmt.Errorf("get snapshot %s: %w", ref, err)
	}
	return s, nil
}

// ListSnapshots returns the snapshots of a sandbox, or of the whole project if that's empty, newest first. An error ends the list.
func (c *Client) ListSnapshots(ctx context.Context, sandbox string) iter.Seq2[Snapshot, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		if sandbox == "" {
			return c.api.ListSnapshots(ctx, &gen.ListSnapshotsParams{Cursor: cursor})
		}
		return c.api.ListSandboxSnapshots(ctx, sandbox, &gen.ListSandboxSnapshotsParams{Cursor: cursor})
	}, func(p gen.SnapshotPage) ([]Snapshot, *string) { return p.Items, p.NextCursor })
}

// DeleteSnapshot deletes a snapshot by id or name. What was made of it stays.
func (c *Client) DeleteSnapshot(ctx context.Context, ref string) error {
	if err := done(c.api.DeleteSnapshot(ctx, ref)); err != nil {
		return fmt.Errorf("delete snapshot %s: %w", ref, err)
	}
	return nil
}

// whenTrue is a parameter that is left out unless it's true.
func whenTrue(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// Garbage is snapshots that aren't needed any more.
type Garbage = gen.Garbage

// Garbage returns the project's snapshots that would go now.
func (c *Client) Garbage(ctx context.Context) (Garbage, error) {
	g, err := decode[Garbage](c.api.ListGarbage(ctx))
	if err != nil {
		return g, fmt.Errorf("list what isn't needed: %w", err)
	}
	return g, nil
}

// CollectGarbage lets those snapshots go, and returns them.
func (c *Client) CollectGarbage(ctx context.Context) (Garbage, error) {
	g, err := decode[Garbage](c.api.CollectGarbage(ctx))
	if err != nil {
		return g, fmt.Errorf("collect what isn't needed: %w", err)
	}
	return g, nil
}
