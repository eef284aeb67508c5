package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// densityEvery is how often a node's memory is looked at.
	densityEvery = 5 * time.Second
	// suspendAtOnce bounds the sandboxes that are suspended before it's looked again: each gives memory back.
	suspendAtOnce = 2
	// relieveAmong bounds the sandboxes of which those are chosen: one that can't be suspended leaves its place to the next.
	relieveAmong = 32
)

// Presser tells whether a node is short of memory.
type Presser interface {
	Pressed() bool
}

// Pausers knows which sandboxes of a node are paused, the longest first, without those whose suspend has failed within the last minute.
type Pausers interface {
	Paused(ctx context.Context, node string, limit int) ([]record.SnapshotOwner, error)
}

// Suspender suspends a sandbox.
type Suspender interface {
	Suspend(ctx context.Context, project, id string) (operation string, err error)
}

// RelieveNode suspends paused sandboxes of a node that is short of memory, the one that was paused longest first, until ctx ends.
func RelieveNode(ctx context.Context, name string, node Presser, paused Pausers, sandboxes Suspender) {
	every(ctx, densityEvery, "paused sandboxes can't be suspended", func() error { return relieveRound(ctx, name, node, paused, sandboxes) })
}

func relieveRound(ctx context.Context, name string, node Presser, paused Pausers, sandboxes Suspender) error {
	if !node.Pressed() {
		return nil
	}
	rows, err := paused.Paused(ctx, name, relieveAmong)
	if err != nil {
		return err
	}
	suspended := 0
	var failures []error
	for _, r := range rows {
		if suspended == suspendAtOnce || ctx.Err() != nil {
			break
		}
		_, err := sandboxes.Suspend(ctx, r.Project, r.Sandbox)
		switch {
		case space.CodeOf(err) == space.CodeConflict, space.CodeOf(err) == space.CodeNotFound: // it's something else by now
		case err != nil:
			failures = append(failures, fmt.Errorf("suspend sandbox %s: %w", r.Sandbox, err))
		default:
			suspended++
			slog.Info("a paused sandbox is suspended: its node is short of memory", "node", name, "sandbox", r.Sandbox)
		}
	}
	return errors.Join(failures...)
}
