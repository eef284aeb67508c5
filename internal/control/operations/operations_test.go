package operations_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// one is a store with one operation.
type one struct {
	id    string
	ended atomic.Bool
}

func (o *one) Operation(_ context.Context, _, id string) (record.Operation, error) {
	if id != o.id {
		return record.Operation{}, space.Errorf(space.CodeNotFound, "no")
	}
	if o.ended.Load() {
		return record.Operation{ID: id, Status: record.OperationSucceeded}, nil
	}
	return record.Operation{ID: id, Status: record.OperationRunning}, nil
}

func TestWait(t *testing.T) {
	for _, x := range []struct {
		name    string
		wait    time.Duration
		endsIn  time.Duration // 0: never
		rings   bool
		cancels time.Duration // 0: never
		after   time.Duration
		ended   bool
	}{
		{name: "not at all", endsIn: time.Second},
		{name: "ends with a ring", wait: time.Minute, endsIn: 1500 * time.Millisecond, rings: true, after: 1500 * time.Millisecond, ended: true},
		{name: "ends without a ring", wait: time.Minute, endsIn: 1500 * time.Millisecond, after: 2 * time.Second, ended: true},
		{name: "doesn't end", wait: 3 * time.Second, after: 3 * time.Second},
		{name: "longer than allowed", wait: time.Hour, after: operations.MaxWait},
		{name: "the client goes", wait: time.Minute, cancels: time.Second, after: time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, bell := &one{id: space.NewID(space.PrefixOperation)}, new(wake.Bell)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if x.cancels > 0 {
					time.AfterFunc(x.cancels, cancel)
				}
				if x.endsIn > 0 {
					defer time.AfterFunc(x.endsIn, func() {
						store.ended.Store(true)
						if x.rings {
							bell.Ring(store.id)
						}
					}).Stop()
				}
				began := time.Now()
				got, err := operations.New(store, bell).Wait(ctx, "prj", store.id, x.wait)
				if after := time.Since(began); err != nil || got.Ended() != x.ended || after != x.after {
					t.Errorf("after %s: %+v, %v", after, got, err)
				}
			})
		})
	}
}

func TestWaitForNothing(t *testing.T) {
	store := &one{id: space.NewID(space.PrefixOperation)}
	for _, id := range []string{"", "x", "op_x\x00", space.NewID(space.PrefixOperation)} {
		if _, err := operations.New(store, new(wake.Bell)).Wait(t.Context(), "prj", id, time.Hour); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}
