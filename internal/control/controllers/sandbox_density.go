package controllers

import (
	"context"
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
)

// Presser tells whether a node is short of memory.
type Presser interface {
	Pressed() bool
}

// Pausers knows which sandboxes of a node are paused, the longest first.
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
	rows, err := paused.Paused(ctx, name, suspendAtOnce)
	if err != nil {
		return err
	}
	for _, r := range rows {
		_, err := sandboxes.Suspend(ctx, r.Project, r.Sandbox)
		switch {
		case space.CodeOf(err) == space.CodeConflict, space.CodeOf(err) == space.CodeNotFound: // it's something else by now
		case err != nil:
			return err
		default:
			slog.Info("a paused sandbox is suspended: its node is short of memory", "node", name, "sandbox", r.Sandbox)
		}
	}
	return nil
}
