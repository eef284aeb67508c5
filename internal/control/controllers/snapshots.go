package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
)

const (
	// collectEvery is how late it may be noticed that a snapshot isn't needed any more.
	collectEvery = 30 * time.Second
	// rollEvery is how late a sandbox may take a snapshot of itself.
	rollEvery = 5 * time.Second
)

// CollectSnapshots lets snapshots go that nothing needs until ctx ends.
func CollectSnapshots(ctx context.Context, c *retention.Collector) {
	every(ctx, collectEvery, "snapshots can't be collected", func() error {
		gone, err := c.Collect(ctx, "")
		if len(gone) > 0 {
			slog.Info("snapshots weren't needed any more", "count", len(gone))
		}
		return err
	})
}

// Rollers knows which sandboxes are to take a snapshot of themselves at a time; see postgres.Store.
type Rollers interface {
	ToRoll(ctx context.Context, now time.Time, after string, limit int) ([]record.SnapshotOwner, error)
}

// Roller has a sandbox take a snapshot of itself, if it's still due.
type Roller interface {
	Roll(ctx context.Context, project, id string) (taken bool, err error)
}

// RollSnapshots has sandboxes take snapshots of themselves when they're due until ctx ends.
func RollSnapshots(ctx context.Context, rollers Rollers, sandboxes Roller) {
	every(ctx, rollEvery, "sandboxes can't take snapshots of themselves", func() error { return rollRound(ctx, rollers, sandboxes) })
}

func rollRound(ctx context.Context, rollers Rollers, sandboxes Roller) error {
	now := time.Now()
	list := func(ctx context.Context, after record.SnapshotOwner, limit int) ([]record.SnapshotOwner, error) {
		return rollers.ToRoll(ctx, now, after.Sandbox, limit)
	}
	return inBatches(ctx, list, func(ctx context.Context, o record.SnapshotOwner) error { return rollOne(ctx, sandboxes, o) })
}

// rollOne has one sandbox take a snapshot of itself. One that can't now, since it does something else or has no room, is looked at again in the next round.
func rollOne(ctx context.Context, sandboxes Roller, o record.SnapshotOwner) error {
	_, err := sandboxes.Roll(ctx, o.Project, o.Sandbox)
	switch space.CodeOf(err) {
	case space.CodeConflict, space.CodeQuotaExceeded, space.CodeCapacity:
		slog.Debug("a sandbox can't take a snapshot of itself now", "sandbox", o.Sandbox, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("have sandbox %s take a snapshot of itself: %w", o.Sandbox, err)
	}
	return nil
}
