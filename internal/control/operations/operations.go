// Package operations answers for lifecycle changes that are in progress: anyone may ask for one, or wait until it has ended. Other
// packages start operations together with the intent that they stand for, and the node's synchronization ends them.
package operations

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// MaxWait bounds how long a request may wait for an operation.
	MaxWait = 300 * time.Second
	// pollEvery is the safety net for a wake-up that was lost, for example because another process recorded the end.
	pollEvery = 2 * time.Second
)

// Store reads operations.
type Store interface {
	Operation(ctx context.Context, project, id string) (record.Operation, error)
}

// Operations are the operations of all projects.
type Operations struct {
	store Store
	bell  *wake.Bell
}

// New returns the operations in a store. Whoever ends one rings its id.
func New(store Store, bell *wake.Bell) *Operations { return &Operations{store: store, bell: bell} }

// Get returns a project's operation; not_found if it has none of that id.
func (o *Operations) Get(ctx context.Context, project, id string) (record.Operation, error) {
	if space.CheckID(space.PrefixOperation, id) != nil {
		return record.Operation{}, space.Errorf(space.CodeNotFound, "the operation does not exist")
	}
	return o.store.Operation(ctx, project, id)
}

// Wait returns a project's operation when it has ended, when the wait has passed or when ctx is over, whichever is first; its status
// says whether it has ended. A wait of 0 is a Get.
func (o *Operations) Wait(ctx context.Context, project, id string, wait time.Duration) (record.Operation, error) {
	rung, stop := o.bell.Listen(id)
	defer stop()
	over := time.NewTimer(min(wait, MaxWait))
	defer over.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	// Who gives up waiting still hears what is known: the reads are short and bounded by the store.
	read := context.WithoutCancel(ctx)
	for {
		last, err := o.Get(read, project, id)
		if err != nil || last.Ended() || wait <= 0 {
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-over.C:
			return last, nil
		case <-rung:
		case <-poll.C:
		}
	}
}
