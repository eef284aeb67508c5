package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// idleEvery is how late idleness may be noticed; beside the coarseness of what is recorded of activity.
const idleEvery = 10 * time.Second

// Idlers knows which sandboxes nothing was done with for as long as they say; see postgres.Store.
type Idlers interface {
	Idling(ctx context.Context, now time.Time, after record.Idling, limit int) ([]record.Idling, error)
}

// IdleEnder does what one says of its idleness, unless something was done with it since.
type IdleEnder interface {
	EndIdle(ctx context.Context, i record.Idling) (done bool, err error)
}

// Flusher writes what was done with sandboxes and isn't written yet.
type Flusher interface {
	Flush(ctx context.Context) error
}

// EndIdleSandboxes suspends or deletes sandboxes with which nothing was done until ctx ends.
func EndIdleSandboxes(ctx context.Context, idlers Idlers, sandboxes IdleEnder, activity Flusher) {
	every(ctx, idleEvery, "idle sandboxes can't be ended", func() error { return idleRound(ctx, idlers, sandboxes, activity) })
}

func idleRound(ctx context.Context, idlers Idlers, sandboxes IdleEnder, activity Flusher) error {
	if err := activity.Flush(ctx); err != nil { // what was done a moment ago counts
		return err
	}
	now := time.Now()
	list := func(ctx context.Context, after record.Idling, limit int) ([]record.Idling, error) {
		return idlers.Idling(ctx, now, after, limit)
	}
	return inBatches(ctx, list, func(ctx context.Context, i record.Idling) error { return endIdle(ctx, sandboxes, i) })
}

func endIdle(ctx context.Context, sandboxes IdleEnder, i record.Idling) error {
	done, err := sandboxes.EndIdle(ctx, i)
	switch {
	case space.CodeOf(err) == space.CodeConflict: // another operation is under way, which is activity
		return nil
	case err != nil:
		return fmt.Errorf("%s the idle sandbox %s: %w", i.Idle.Action, i.ID, err)
	case done:
		slog.Info("a sandbox was idle", "sandbox", i.ID, "action", string(i.Idle.Action), "active_at", i.ActiveAt)
	}
	return nil
}
