package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// lookEvery is how late a deadline may be noticed that was set by another process, or an action that has just become possible.
const lookEvery = time.Second

// Deadlines knows which sandboxes have one, in their order; see postgres.Store.
type Deadlines interface {
	Expiring(ctx context.Context, after record.Expiring, limit int) ([]record.Expiring, error)
}

// Expirer does what the lifetime of one sandbox says, unless it has changed.
type Expirer interface {
	Expire(ctx context.Context, e record.Expiring) (done bool, err error)
}

// ExpireSandboxes deletes or stops sandboxes at their deadlines until ctx ends. What passed while it didn't run is done at once.
func ExpireSandboxes(ctx context.Context, deadlines Deadlines, sandboxes Expirer, bell *wake.Bell) {
	rung, stop := bell.Listen(wake.Deadlines)
	defer stop()
	failing := false
	for {
		next, err := expireRound(ctx, deadlines, sandboxes)
		if err != nil && !failing && ctx.Err() == nil {
			slog.Error("sandboxes can't be expired; it's tried again every second", "err", err)
		}
		failing = err != nil
		look := time.NewTimer(untilNext(next, time.Now()))
		select {
		case <-ctx.Done():
		case <-rung:
		case <-look.C:
		}
		look.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// untilNext is how long to sleep when the next deadline is known; zero: none is.
func untilNext(next, now time.Time) time.Duration {
	if next.IsZero() {
		return lookEvery
	}
	return min(max(next.Sub(now), 0), lookEvery)
}

// expireRound acts on all that is due and returns the first deadline that isn't. What goes wrong with one sandbox doesn't keep it from the
// others; one that can't be acted on now, since another operation is under way, is looked at again in the next round.
func expireRound(ctx context.Context, deadlines Deadlines, sandboxes Expirer) (next time.Time, err error) {
	list := func(ctx context.Context, after record.Expiring, limit int) (due []record.Expiring, err error) {
		rows, err := deadlines.Expiring(ctx, after, limit)
		due, next = selectDue(rows, time.Now())
		return due, err
	}
	err = inBatches(ctx, list, func(ctx context.Context, e record.Expiring) error { return expireOne(ctx, sandboxes, e) })
	return next, err
}

// selectDue says which of the sandboxes, in the order of their deadlines, have reached it, and the first deadline that is still to come; zero
// if none is known.
func selectDue(rows []record.Expiring, now time.Time) (due []record.Expiring, next time.Time) {
	for i, r := range rows {
		if r.Lifetime.Deadline.After(now) {
			return rows[:i], r.Lifetime.Deadline
		}
	}
	return rows, time.Time{}
}

func expireOne(ctx context.Context, sandboxes Expirer, e record.Expiring) error {
	done, err := sandboxes.Expire(ctx, e)
	switch {
	case space.CodeOf(err) == space.CodeConflict:
		return nil
	case err != nil:
		return fmt.Errorf("%s sandbox %s at its deadline: %w", e.Lifetime.OnExpiry, e.ID, err)
	case done:
		slog.Info("a sandbox's lifetime has ended", "sandbox", e.ID, "action", string(e.Lifetime.OnExpiry),
			"late_ms", time.Since(e.Lifetime.Deadline).Milliseconds())
	}
	return nil
}
