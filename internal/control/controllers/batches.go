package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// batch is how many records are read at once.
	batch = 100
	// maxBatches bounds a round; what is left waits for the next.
	maxBatches = 100
	// atOnce bounds the actions that are taken side by side.
	atOnce = 4
	// maxTold bounds the failures of a round that are told: they're rarely of different kinds.
	maxTold = 3
)

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

// inBatches acts on all that is listed, batch by batch, each behind the last of the one before; the zero value is before the first. What goes wrong with one
// doesn't keep it from the others.
func inBatches[T any](ctx context.Context, list func(ctx context.Context, after T, limit int) ([]T, error), act func(context.Context, T) error) error {
	var after T
	var f failures
	for range maxBatches {
		rows, err := list(ctx, after, batch)
		if err != nil {
			f.add(err)
			break
		}
		each(ctx, rows, &f, act)
		if len(rows) < batch || ctx.Err() != nil {
			break
		}
		after = rows[len(rows)-1]
	}
	return f.err()
}

// each acts on some side by side.
func each[T any](ctx context.Context, rows []T, f *failures, act func(context.Context, T) error) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, r := range rows {
		g.Go(func() error {
			f.add(act(ctx, r))
			return nil
		})
	}
	_ = g.Wait() // none is returned
}

// failures gathers what went wrong in a round.
type failures struct {
	mu    sync.Mutex // guards what follows
	count int
	first []error
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if len(f.first) < maxTold {
		f.first = append(f.first, err)
	}
}

// err is nil if nothing went wrong.
func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > len(f.first) {
		return fmt.Errorf("%d failures, the first are: %w", f.count, errors.Join(f.first...))
	}
	return errors.Join(f.first...)
}
