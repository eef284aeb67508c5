package controllers

import (
	"context"
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

// Pausers knows which sandboxes of a node are paused, the longest first, without those whose suspend has failed a while ago.
type Pausers interface {
	Paused(ctx context.Context, node string, limit int) ([]record.SnapshotOwner, error)
}

// Reliever suspends a sandbox, if it's still paused.
type Reliever interface {
	Relieve(ctx context.Context, project, id string) (done bool, err error)
}

// RelieveNode suspends paused sandboxes of a node that is short of memory, the one that was paused longest first, until ctx ends.
func RelieveNode(ctx context.Context, name string, node Presser, paused Pausers, sandboxes Reliever) {
	every(ctx, densityEvery, "paused sandboxes can't be suspended", func() error { return relieveRound(ctx, name, node, paused, sandboxes) })
}

func relieveRound(ctx context.Context, name string, node Presser, paused Pausers, sandboxes Reliever) error {
	if !node.Pressed() {
		return nil
	}
	rows, err := paused.Paused(ctx, name, relieveAmong)
	if err != nil {
		return err
	}
	suspended := 0
	var f failures
	for _, r := range rows {
		if suspended == suspendAtOnce || ctx.Err() != nil {
			break
		}
		done, err := sandboxes.Relieve(ctx, r.Project, r.Sandbox)
		switch {
		case space.CodeOf(err) == space.CodeConflict: // something else is done with it
		case err != nil:
			f.add(fmt.Errorf("suspend sandbox %s: %w", r.Sandbox, err))
		case done:
			suspended++
			slog.Info("a paused sandbox is suspended: its node is short of memory", "node", name, "sandbox", r.Sandbox)
		}
	}
	return f.err()
}
