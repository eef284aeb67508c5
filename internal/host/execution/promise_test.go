package execution

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/snapshot"
)

// each is what one of these machines is promised.
var each = ownSize.MemoryBytes + testOverhead

// taken checks how much memory is promised.
func (r *rig) taken(t *testing.T, when string, want int64) {
	t.Helper()
	if got := r.memory - r.promises.Left(); got != want {
		t.Errorf("%s %d bytes are promised, want %d", when, got, want)
	}
}

// TestMemoryIsPromisedOnce: who would need more than there is left fails with the reason and leaves nothing; whoever has a machine keeps what it has, in the next life too, until
// the machine is gone, whichever way it goes.
func TestMemoryIsPromisedOnce(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *rig, *Table, Order){
		"removed": func(t *testing.T, _ *rig, table *Table, o Order) { remove(t, table, o.Route) },
		"stopped": func(t *testing.T, _ *rig, table *Table, o Order) { stop(t, table, o.Route) },
		"suspended": func(t *testing.T, r *rig, table *Table, o Order) {
			if s := suspend(t, r, table, o, snapshotID()); s.State != snapshot.Ready {
				t.Fatal(s.Err)
			}
			awaitState(t, table, o, space.ExecutionSuspended)
		},
		"lost": func(t *testing.T, r *rig, table *Table, o Order) {
			r.named(o).die()
			awaitState(t, table, o, space.ExecutionLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.memory = 2*each + 1
			table, first, second := r.open(), order(), order()
			ensure(t, table, first, space.ExecutionRunning)
			ensure(t, table, second, space.ExecutionRunning)
			r.taken(t, "with two", 2*each)
			third := order()
			if failed := ensure(t, table, third, space.ExecutionFailed); space.CodeOf(failed.Err) != space.CodeCapacity {
				t.Errorf("a third one: %v, want %s", failed.Err, space.CodeCapacity)
			}
			remove(t, table, third.Route)
			table.Close()
			table = r.open()
			r.taken(t, "in the next life", 2*each)
			end(t, r, table, first)
			r.taken(t, "with one that was "+name, each)
			ensure(t, table, order(), space.ExecutionRunning)
			r.taken(t, "with another", 2*each)
		})
	}
}

// TestWhatFailsGivesItsMemoryBack, the first time and when it's tried again.
func TestWhatFailsGivesItsMemoryBack(t *testing.T) {
	r := newRig(t)
	r.loadErr = errors.New("no")
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionFailed)
	r.taken(t, "with one that failed", 0)
	remove(t, table, o.Route)
	r.mu.Lock()
	r.loadErr, r.dying = nil, 1
	r.mu.Unlock()
	o = order()
	ensure(t, table, o, space.ExecutionRunning)
	r.taken(t, "with one that ran at the second try", each)
	remove(t, table, o.Route)
	table.Close()
	r.checkNothingLeft()
}

// TestASharedMemoryCountsUntilTheLastMachineIsGone, once for all of them, those of the pool and of an earlier life among them.
func TestASharedMemoryCountsUntilTheLastMachineIsGone(t *testing.T) {
	for name, slots := range map[string]PoolConfig{"loaded": {}, "of the pool": {Size: 1}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mem")
			if err := errors.Join(os.WriteFile(path, []byte("m"), 0o600), os.Truncate(path, ownSize.MemoryBytes)); err != nil {
				t.Fatal(err)
			}
			f, _, err := seal.Memory(path, promise.New(ownSize.MemoryBytes).Share)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r := newRig(t)
			r.sealed, r.slots = f, slots
			table, first, second := r.open(), order(), order()
			awaitSlots(t, table, slots.Size)
			ensure(t, table, first, space.ExecutionRunning)
			ensure(t, table, second, space.ExecutionRunning)
			r.taken(t, "with two", 2*each+ownSize.MemoryBytes)
			table.Close()
			r.slots = PoolConfig{}
			table = r.open()
			r.taken(t, "in the next life", 2*each+ownSize.MemoryBytes)
			remove(t, table, first.Route)
			r.taken(t, "with one", each+ownSize.MemoryBytes)
			remove(t, table, second.Route)
			table.Close()
			r.checkNothingLeft()
		})
	}
}

// TestRecallPromisesBeforeTheTableDoes what is on file, and takes it back when the table has it.
func TestRecallPromisesBeforeTheTableDoes(t *testing.T) {
	r := newRig(t)
	table, runs, stopped := r.open(), order(), order()
	ensure(t, table, runs, space.ExecutionRunning)
	ensure(t, table, stopped, space.ExecutionRunning)
	stop(t, table, stopped.Route)
	table.Close()
	l := promise.New(r.memory)
	done, err := Recall(filepath.Join(r.dir, "executions"), l, testOverhead)
	if err != nil || l.Left() != r.memory-each {
		t.Fatalf("%d are promised, %v, want %d", r.memory-l.Left(), err, each)
	}
	if done(); l.Left() != r.memory {
		t.Errorf("%d are still promised", r.memory-l.Left())
	}
}
