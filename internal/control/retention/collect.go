package retention

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// batch is how many sandboxes are looked at with one read.
	batch = 100
	// maxOwners bounds the sandboxes that are looked at in one round.
	maxOwners = 100_000
	// page is how many snapshots are read at once, and maxEach how many of one sandbox: some more than it may have, since suspends are let through.
	page    = 500
	maxEach = 2000
)

// Store keeps snapshots.
type Store interface {
	SnapshotOwners(ctx context.Context, project, after string, limit int) ([]record.SnapshotOwner, error)
	Snapshots(ctx context.Context, project, sandbox string, after record.Position, limit int) ([]record.Snapshot, error)
	UnusedSnapshots(ctx context.Context, ids []string) ([]string, error)
	DeleteUnused(ctx context.Context, ids []string) ([]string, error)
}

// Collector finds what isn't needed any more, and lets it go.
type Collector struct {
	store Store
	bell  *wake.Bell
}

// NewCollector returns the collector of a store.
func NewCollector(store Store, bell *wake.Bell) *Collector {
	return &Collector{store: store, bell: bell}
}

// Find returns the snapshots of a project that would go now, of all projects if that's empty.
func (c *Collector) Find(ctx context.Context, project string) ([]record.Snapshot, error) {
	return c.each(ctx, project, c.store.UnusedSnapshots)
}

// Collect writes that the snapshots of a project are to go that nothing needs, of all projects if that's empty, and returns them.
func (c *Collector) Collect(ctx context.Context, project string) ([]record.Snapshot, error) {
	out, err := c.each(ctx, project, c.store.DeleteUnused)
	for _, n := range out {
		c.bell.Ring(wake.Node(n.Route.Placement.Node))
	}
	return out, err
}

// each does something with what isn't needed of each sandbox, and returns those with which it was done. What goes wrong with one sandbox doesn't keep it from the
// others.
func (c *Collector) each(ctx context.Context, project string, do func(context.Context, []string) ([]string, error)) ([]record.Snapshot, error) {
	var out []record.Snapshot
	var failed error // the first of them: they're rarely of different kinds
	after := ""
	for seen := 0; seen < maxOwners && ctx.Err() == nil; {
		owners, err := c.store.SnapshotOwners(ctx, project, after, batch)
		if err != nil {
			return out, err
		}
		for _, o := range owners {
			some, err := c.of(ctx, o, do)
			if err != nil && failed == nil {
				failed = fmt.Errorf("snapshots of sandbox %s: %w", o.Sandbox, err)
			}
			out = append(out, some...)
		}
		if len(owners) < batch {
			break
		}
		seen, after = seen+len(owners), owners[len(owners)-1].Sandbox
	}
	return out, failed
}

// all returns a sandbox's snapshots, newest first.
func (c *Collector) all(ctx context.Context, o record.SnapshotOwner) (out []record.Snapshot, err error) {
	var after record.Position
	for len(out) < maxEach {
		rows, err := c.store.Snapshots(ctx, o.Project, o.Sandbox, after, page)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		if len(rows) < page {
			break
		}
		last := rows[len(rows)-1]
		after = record.Position{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	return out, nil
}

func (c *Collector) of(ctx context.Context, o record.SnapshotOwner, do func(context.Context, []string) ([]string, error)) ([]record.Snapshot, error) {
	all, err := c.all(ctx, o)
	if err != nil {
		return nil, err
	}
	goes := Unneeded(time.Now(), o.Rolling, all)
	if o.Deleted { // what another sandbox was still to be loaded from when it went
		goes = slices.DeleteFunc(all, func(n record.Snapshot) bool { return n.Name != "" })
	}
	if len(goes) == 0 {
		return nil, nil
	}
	var ids []string
	for _, n := range goes {
		ids = append(ids, n.ID)
	}
	done, err := do(ctx, ids)
	return slices.DeleteFunc(goes, func(n record.Snapshot) bool { return !slices.Contains(done, n.ID) }), err
}
