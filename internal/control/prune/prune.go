// Package prune deletes records whose time is over: deleted sandboxes, expired tokens, old idempotency keys, templates whose name
// another has taken.
package prune

import (
	"context"
	"log/slog"
	"time"
)

const (
	// every is the time between two rounds.
	every = 10 * time.Minute
	// maxBatches bounds a round; what is left waits for the next.
	maxBatches = 100
)

// Store deletes a bounded batch and says how many records that were.
type Store interface {
	Prune(ctx context.Context) (rows int64, err error)
}

// Run prunes now and then until ctx ends. An error is logged and tried again in the next round.
func Run(ctx context.Context, store Store) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if rows, err := round(ctx, store); err != nil && ctx.Err() == nil {
			slog.Error("pruning went wrong", "rows", rows, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func round(ctx context.Context, store Store) (total int64, err error) {
	for range maxBatches {
		rows, err := store.Prune(ctx)
		total += rows
		if err != nil || rows == 0 {
			return total, err
		}
	}
	return total, nil
}
