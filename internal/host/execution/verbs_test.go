package execution

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/snapshot"
)

// The sizes of a day in the life of a node.
const (
	verbRounds  = 4
	verbWorkers = 4
	verbsEach   = 25
	verbLives   = 3 // of the daemon
)

// crowd orders anything of a node, at the same time, in any order. Orders that the state doesn't allow are refused; nothing else may come of them.
type crowd struct {
	*rig
	table *Table

	mu     sync.Mutex // guards what follows
	orders []Order
	shots  []string
}

// TestWhateverIsOrdered has a crowd order anything, machines die and the daemon end and come back, and looks at what there is afterwards.
func TestWhateverIsOrdered(t *testing.T) {
	for round := range verbRounds {
		seed := uint64(time.Now().UnixNano()) + uint64(round)
		t.Logf("seed %d", seed)
		r := newRig(t)
		c := &crowd{rig: r, table: r.open()}
		for life := range verbLives {
			c.live(t, seed+uint64(life)<<32)
			if life < verbLives-1 {
				r.endLife(t, c.table, "TERM")
				c.table = r.open()
			}
		}
		states := map[space.ExecutionState]int{}
		for _, r := range c.table.Reports() {
			states[r.State]++
		}
		t.Logf("executions: %v, snapshots: %d", states, len(c.snapshots.Reports()))
		c.check(t)
		c.clear(t)
	}
}

// live is one life of the daemon.
func (c *crowd) live(t *testing.T, seed uint64) {
	var workers sync.WaitGroup
	for w := range verbWorkers {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		workers.Go(func() {
			for range verbsEach {
				c.do(t, rng)
			}
		})
	}
	workers.Wait()
}

// do orders one thing.
func (c *crowd) do(t *testing.T, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o, ok := c.any(rng)
	verb := rng.IntN(10)
	if !ok || verb == 0 {
		c.table.Ensure(ctx, c.add(order()))
		return
	}
	switch verb {
	case 1, 2:
		c.table.Pause(ctx, o.Route)
	case 3:
		c.table.Resume(ctx, o.Route)
	case 4:
		c.table.Suspend(ctx, o.Route, c.shot())
	case 5:
		c.table.TakeSnapshot(ctx, o.Route, c.shot(), []snapshot.Kind{snapshot.Disk, snapshot.Full}[rng.IntN(2)])
	case 6:
		c.table.Stop(ctx, o.Route, 0)
	case 7:
		c.load(ctx, rng)
	case 8:
		c.drop(rng)
	case 9:
		if live := c.running(); len(live) > 0 && rng.IntN(3) == 0 {
			live[rng.IntN(len(live))].die()
			return
		}
		c.table.Remove(ctx, o.Route)
	}
}

// load makes a fork of a snapshot, or the next execution of its sandbox.
func (c *crowd) load(ctx context.Context, rng *rand.Rand) {
	reports := slices.DeleteFunc(c.snapshots.Reports(), func(r snapshot.Report) bool { return r.State != snapshot.Ready })
	if len(reports) == 0 {
		return
	}
	s := reports[rng.IntN(len(reports))]
	o := forkOf(s)
	if rng.IntN(2) == 0 {
		o.Route.Sandbox = s.Route.Sandbox
		for _, r := range c.table.Reports() {
			if r.Route.Sandbox == o.Route.Sandbox {
				o.Route.Epoch = max(o.Route.Epoch, r.Route.Epoch+1)
			}
		}
	}
	c.table.Ensure(ctx, c.add(o))
}

// drop removes a snapshot, unless it's all that there is of an execution.
func (c *crowd) drop(rng *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shots) == 0 {
		return
	}
	id := c.shots[rng.IntN(len(c.shots))]
	if s, ok := c.snapshots.Find(id); !ok || s.Pause == 0 && s.State == snapshot.Ready {
		return // it may be a suspend's
	}
	c.snapshots.Remove(id)
}

func (c *crowd) any(rng *rand.Rand) (Order, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.orders) == 0 {
		return Order{}, false
	}
	return c.orders[rng.IntN(len(c.orders))], true
}

// add notes an order. A node of the rig's size has room for few machines; beyond that they fail, which is fine too.
func (c *crowd) add(o Order) Order {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, o)
	return o
}

func (c *crowd) shot() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := snapshotID()
	c.shots = append(c.shots, id)
	return id
}

// check looks whether all that is said is true, once everything has come to rest.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	eventually(t, "no snapshot is being made", func() bool {
		return !slices.ContainsFunc(c.snapshots.Reports(), func(r snapshot.Report) bool { return r.State == snapshot.Making })
	})
	var running, paused int
	eventually(t, "the machines are as many as is said, and stand still or run as is said", func() bool {
		running, paused = 0, 0
		for _, r := range c.table.Reports() {
			switch r.State {
			case space.ExecutionRunning:
				running++
			case space.ExecutionPaused:
				paused++
			}
		}
		still := 0
		for _, m := range c.running() {
			if m.paused.Load() {
				still++
			}
		}
		return len(c.running()) == running+paused && still == paused
	})
	for _, r := range c.table.Reports() {
		if r.State != space.ExecutionSuspended {
			continue
		}
		if s, ok := c.snapshots.Find(r.Snapshot); !ok || s.State != snapshot.Ready || s.Route != r.Route {
			t.Errorf("%s is suspended, and its snapshot %s is %+v", r.Route.Execution, r.Snapshot, s)
		}
	}
	for _, s := range c.snapshots.Reports() {
		if s.State != snapshot.Ready {
			continue
		}
		if _, give, err := c.snapshots.Borrow(s.Snapshot, s.Digest, false); err != nil {
			t.Errorf("snapshot %s is ready: %v", s.Snapshot, err)
		} else {
			give()
		}
	}
}

// clear removes everything, to the last trace.
func (c *crowd) clear(t *testing.T) {
	t.Helper()
	for _, r := range c.table.Reports() {
		remove(t, c.table, r.Route)
	}
	for _, s := range c.snapshots.Reports() {
		if err := c.snapshots.Remove(s.Snapshot); err != nil {
			t.Error(err)
		}
	}
	if len(c.snapshots.Reports()) > 0 {
		t.Errorf("left are %v", c.snapshots.Reports())
	}
	c.table.Close()
	c.checkNothingLeft()
}
