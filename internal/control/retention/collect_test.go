package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// attic is the snapshots of some sandboxes, newest first.
type attic struct {
	owners []string
	of     map[string][]record.Snapshot
	fails  map[string]error
}

func (a *attic) SnapshotOwners(_ context.Context, _, after string, limit int) (out []record.SnapshotOwner, _ error) {
	for _, id := range a.owners {
		if id > after && len(out) < limit {
			out = append(out, record.SnapshotOwner{Sandbox: id})
		}
	}
	return out, nil
}

func (a *attic) Snapshots(_ context.Context, _, sandbox string, after record.Position, limit int) (out []record.Snapshot, _ error) {
	for _, n := range a.of[sandbox] {
		if after.ID == "" || n.CreatedAt.Before(after.CreatedAt) {
			out = append(out, n)
		}
	}
	return out[:min(limit, len(out))], a.fails[sandbox]
}

func (a *attic) UnusedSnapshots(_ context.Context, ids []string) ([]string, error) { return ids, nil }
func (a *attic) DeleteUnused(_ context.Context, ids []string) ([]string, error)    { return ids, nil }

// TestCollect has more sandboxes than a batch, one that can't be looked at, and one with more snapshots than a page that somebody asked for, before what isn't needed.
func TestCollect(t *testing.T) {
	a := &attic{of: map[string][]record.Snapshot{}, fails: map[string]error{}}
	var want []string
	for n := range 2*batch + 10 {
		id := fmt.Sprintf("sbx_%04d", n)
		a.owners = append(a.owners, id)
		if n == 7 {
			for i := range 2 * page {
				a.of[id] = append(a.of[id], shot(fmt.Sprintf("asked%d", i), time.Duration(i)*time.Second, record.PurposeAsked, record.SnapshotFull, 1))
			}
		}
		a.of[id] = append(a.of[id], shot("newer"+id, time.Hour, record.PurposeSuspend, record.SnapshotFull, 1), shot("older"+id, 2*time.Hour, record.PurposeSuspend, record.SnapshotFull, 1))
		if n == 7 {
			want = append(want, "older"+id, "newer"+id)
		} else if n != 5 {
			want = append(want, "older"+id)
		}
	}
	away := errors.New("away")
	a.fails[a.owners[5]] = away
	got, err := NewCollector(a, new(wake.Bell)).Collect(t.Context(), "")
	if !errors.Is(err, away) {
		t.Errorf("it says %v", err)
	}
	if !slices.Equal(ids(got), want) {
		t.Errorf("%d went, want %d", len(got), len(want))
	}
}
