package execution

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
)

// awaitSlots waits until so many machines wait in the pool.
func awaitSlots(t *testing.T, table *Table, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); table.pool.counts()["waiting"] != n; pause(t.Context(), time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v machines wait, want %d", table.pool.counts(), n)
		}
	}
}

// named returns the live machine whose guest has the name of the order's sandbox.
func (r *rig) named(o Order) *testMachine {
	for _, m := range r.running() {
		if m.name.Load() == hostname(o.Route.Sandbox) {
			return m
		}
	}
	return nil
}

func TestAnExecutionTakesAMachineOfThePool(t *testing.T) {
	for keeps, dials := range map[bool]int32{true: 1, false: 2} { // a link that outlives a pause is used again
		r := newRig(t)
		r.slots, r.keepsLink = PoolConfig{Size: 1}, keeps
		table, o := r.open(), order()
		awaitSlots(t, table, 1)
		m := r.running()[0]
		if !m.paused.Load() || m.name.Load() != slotHostname {
			t.Fatalf("the machine that waits: paused %v, called %v", m.paused.Load(), m.name.Load())
		}
		ensure(t, table, o, space.ExecutionRunning)
		if got := r.named(o); got != m || m.paused.Load() || m.dials.Load() != dials {
			t.Fatalf("the execution's machine is %+v, want the one that waited, %+v; it was dialled %d times, want %d", got, m, m.dials.Load(), dials)
		}
		a := attach(t, table, o.Route, "true")
		if a.next(t).GetStarted() == nil || string(a.next(t).GetOutput().GetData()) != "hello" || a.next(t).GetExit() == nil {
			t.Fatal("the session went wrong")
		}
		awaitSlots(t, table, 1) // it fills itself
		remove(t, table, o.Route)
		table.Close()
		r.checkNothingLeft()
	}
}

func TestNoSlotIsUsedTwice(t *testing.T) {
	r := newRig(t)
	r.slots = PoolConfig{Size: 2}
	table := r.open()
	awaitSlots(t, table, 2)
	var all sync.WaitGroup
	orders := make([]Order, 6)
	for i := range orders {
		orders[i] = order()
		all.Go(func() { ensure(t, table, orders[i], space.ExecutionRunning) })
	}
	all.Wait()
	seen := map[*testMachine]bool{}
	for _, o := range orders {
		m := r.named(o)
		if m == nil || seen[m] {
			t.Fatalf("machine %+v of %s is somebody else's too, or gone", m, o.Route.Sandbox)
		}
		seen[m] = true
	}
}

func TestAClaimedMachineIsFoundAgain(t *testing.T) {
	r := newRig(t)
	r.slots = PoolConfig{Size: 1}
	table, o := r.open(), order()
	awaitSlots(t, table, 1)
	ensure(t, table, o, space.ExecutionRunning)
	m := r.named(o)
	table.Close()
	known, err := Known(filepath.Join(r.dir, "executions"))
	if err != nil || len(known) != 1 {
		t.Fatalf("Known = %v, %v", known, err)
	}
	for home, uid := range known {
		if _, ok := r.homes[home]; !ok || uid != m.uid {
			t.Errorf("known is enclosure %s of uid %d, want one of %v and %d", home, uid, r.homes, m.uid)
		}
	}
	r.slots = PoolConfig{}
	table = r.open()
	ensure(t, table, o, space.ExecutionRunning)
	if r.named(o) != m {
		t.Fatal("the machine isn't found again")
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// TestWhatACrashLeavesOfASlotBelongsToNobody: no record tells of it, so its enclosure is unknown and its directory goes.
func TestWhatACrashLeavesOfASlotBelongsToNobody(t *testing.T) {
	r := newRig(t)
	table := r.open()
	s := table.newSlot(kind{"tpl_x", ownSize})
	if err := s.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	table.Close() // without the slot, as after a kill
	known, err := Known(filepath.Join(r.dir, "executions"))
	if err != nil || len(known) > 0 {
		t.Errorf("Known = %v, %v, want none", known, err)
	}
	if _, err := os.Lstat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the slot's directory: %v, want none", err)
	}
}

func TestASlotThatDoesNotAnswerCostsNobodyASandbox(t *testing.T) {
	r := newRig(t)
	r.slots = PoolConfig{Size: 1}
	table, o := r.open(), order()
	awaitSlots(t, table, 1)
	dead := r.running()[0]
	r.mu.Lock()
	r.at, r.stall = "greet", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stall = nil
		return os.ErrClosed
	}
	r.mu.Unlock()
	ensure(t, table, o, space.ExecutionRunning)
	if m := r.named(o); m == nil || m == dead {
		t.Fatalf("the machine is %+v", m)
	}
	awaitSlots(t, table, 1)
	if !dead.dead() {
		t.Error("the machine that didn't answer still runs")
	}
}

func TestASlotOfAnotherSnapshotIsNotUsed(t *testing.T) {
	r := newRig(t)
	r.slots = PoolConfig{Size: 1}
	table, o := r.open(), order()
	awaitSlots(t, table, 1)
	old := r.running()[0]
	r.mu.Lock()
	r.snapshot = "newer"
	r.mu.Unlock()
	ensure(t, table, o, space.ExecutionRunning)
	if m := r.named(o); m == nil || m == old {
		t.Fatalf("the machine is %+v, the old one %+v", m, old)
	}
	awaitSlots(t, table, 1)
	if !old.dead() {
		t.Error("the old machine still runs")
	}
}

func TestAllot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		c := PoolConfig{Auto: rapid.Bool().Draw(t, "auto"), Size: rapid.IntRange(0, 100).Draw(t, "size"), MemoryBytes: rapid.Int64Range(0, 1000).Draw(t, "budget")}
		room := rapid.Int64Range(0, 2000).Draw(t, "room")
		wishes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wish {
			w := wish{own: rapid.Bool().Draw(t, "own"), cost: rapid.Int64Range(1, 100).Draw(t, "cost")}
			if rapid.Bool().Draw(t, "asked") {
				w.burst = rapid.IntRange(0, 50).Draw(t, "burst")
				w.last = now.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "ago")) * time.Second)
			}
			return w
		}), 0, 20).Draw(t, "wishes")
		got := allot(c, wishes, room, now)
		var bytes int64
		total := 0
		for i, n := range got {
			w := wishes[i]
			bytes, total = bytes+int64(n)*w.cost, total+n
			if n < 0 || n > c.want(w, now) {
				t.Fatalf("kind %d gets %d, wants %d", i, n, c.want(w, now))
			}
			for j, m := range got { // nobody has two while another that came later, and costs no more, has none
				if n == 0 && m > 1 && c.want(w, now) > 0 && w.cost <= wishes[j].cost && w.last.After(wishes[j].last) {
					t.Fatalf("kind %d gets none, %d gets %d", i, j, m)
				}
			}
		}
		if bytes > room || total > maxSlots || c.Auto && bytes > c.MemoryBytes {
			t.Fatalf("%d slots of %d bytes, room is %d", total, bytes, room)
		}
		if total == 0 && room >= 100 && (!c.Auto || c.MemoryBytes >= 100) {
			for i, w := range wishes {
				if c.want(w, now) > 0 {
					t.Fatalf("kind %d gets nothing, although there is room", i)
				}
			}
		}
	})
}

func TestBurst(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var a arrivals
	for _, ago := range []int{3600, 3599, 3598, 3597, 300, 295, 290, 100, 50, 5} {
		a = a.add(now.Add(-time.Duration(ago) * time.Second))
	}
	if got := a.burst(now); got != 3 {
		t.Errorf("burst = %d, want the 3 within 10 s five minutes ago", got)
	}
	if got := a.last(); got != now.Add(-5*time.Second) {
		t.Errorf("last = %v", got)
	}
	for range 2 * maxArrivals {
		a = a.add(now)
	}
	if len(a) != maxArrivals || a.burst(now) != maxArrivals {
		t.Errorf("%d arrivals, burst %d, want %d", len(a), a.burst(now), maxArrivals)
	}
}
