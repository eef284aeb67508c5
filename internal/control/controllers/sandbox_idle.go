package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// idleEvery is how late idleness may be noticed; beside the coarseness of what is recorded of activity.
const idleEvery = 10 * time.Second

// Idlers knows which sandboxes nothing was done with for as long as they say; see postgres.Store.
type Idlers interface {
	Idling(ctx context.Context, now time.Time, limit int) ([]record.Idling, error)
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

// idleRound acts on a batch; what is left waits for the next round.
func idleRound(ctx context.Context, idlers Idlers, sandboxes IdleEnder, activity Flusher) error {
	if err := activity.Flush(ctx); err != nil { // what was done a moment ago counts
		return err
	}
	rows, err := idlers.Idling(ctx, time.Now(), batch)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, i := range rows {
		g.Go(func() error { return endIdle(ctx, sandboxes, i) })
	}
	return g.Wait()
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

// every does something again and again until ctx ends. That it fails is told when it begins to.
func every(ctx context.Context, interval time.Duration, failure string, do func() error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for {
		err := do()
		if err != nil && !failing && ctx.Err() == nil {
			slog.Error(failure+"; it's tried again", "every", interval, "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
