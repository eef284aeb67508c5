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

// Roller has a sandbox take a snapshot of itself.
type Roller interface {
	Roll(ctx context.Context, project, id string, kind record.SnapshotKind) error
}

// RollSnapshots has sandboxes take snapshots of themselves when they're due until ctx ends.
func RollSnapshots(ctx context.Context, store retention.Store, sandboxes Roller) {
	every(ctx, rollEvery, "sandboxes can't take snapshots of themselves", func() error { return rollRound(ctx, store, sandboxes) })
}

func rollRound(ctx context.Context, store retention.Store, sandboxes Roller) (failed error) {
	after := ""
	for range maxBatches {
		owners, err := store.RollingSandboxes(ctx, after, batch)
		if err != nil || len(owners) == 0 {
			return err
		}
		for _, o := range owners {
			if err := rollOne(ctx, store, sandboxes, o); err != nil {
				failed = err
			}
		}
		after = owners[len(owners)-1].Sandbox
	}
	return failed
}

// rollOne has one sandbox take a snapshot of itself if it's due. One that can't now, since it does something else or has no room, is looked at again in the next round.
func rollOne(ctx context.Context, store retention.Store, sandboxes Roller, o record.SnapshotOwner) error {
	all, err := store.Snapshots(ctx, o.Project, o.Sandbox, record.Position{}, batch)
	if err != nil {
		return err
	}
	kind, due := retention.Due(time.Now(), o.CreatedAt, *o.Rolling, all)
	if !due {
		return nil
	}
	err = sandboxes.Roll(ctx, o.Project, o.Sandbox, kind)
	switch space.CodeOf(err) {
	case space.CodeConflict, space.CodeQuotaExceeded, space.CodeNotFound:
		slog.Debug("a sandbox can't take a snapshot of itself now", "sandbox", o.Sandbox, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("have sandbox %s take a snapshot of itself: %w", o.Sandbox, err)
	}
	return nil
}
