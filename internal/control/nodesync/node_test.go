package nodesync_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// memory is a store that holds what a test wants of a node.
type memory struct {
	mu     sync.Mutex
	wanted record.Wanted
	builds map[string]record.BuildOrder
	seen   []record.Seen
	err    error
}

func (m *memory) Wanted(context.Context, string) (record.Wanted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wanted, m.err
}

func (m *memory) Observe(_ context.Context, s record.Seen) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	m.seen = append(m.seen, s)
	for _, e := range s.Executions {
		for i := range m.wanted.Executions {
			if m.wanted.Executions[i].Route == e.Route {
				m.wanted.Executions[i].Recorded = e.State
			}
		}
	}
	return []string{"op_1"}, nil
}

func (m *memory) BuildOrder(_ context.Context, template string) (record.BuildOrder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, there := m.builds[template]
	if !there {
		return record.BuildOrder{}, space.Errorf(space.CodeNotFound, "no such template")
	}
	return b, m.err
}

func (m *memory) want(w ...record.WantedExecution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted.Executions = w
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

type answer struct {
	orders   []nodesync.Order
	received map[string]int64
	err      error
	after    time.Duration
}

// bubble is a node's synchronization in which time is the test's.
type bubble struct {
	store *memory
	bell  *wake.Bell
	node  *nodesync.Node
}

func newBubble() bubble {
	b := bubble{store: &memory{}, bell: new(wake.Bell)}
	b.node = nodesync.NewNode("n", b.store, activity.New(nil), b.bell)
	return b
}

func (b bubble) call(ctx context.Context, r nodesync.Report, hang time.Duration) answer {
	began := time.Now()
	a, err := b.node.Synchronize(ctx, r, hang)
	return answer{orders: a.Orders, received: a.LogsReceived, err: err, after: time.Since(began)}
}

func (b bubble) start(ctx context.Context, r nodesync.Report, hang time.Duration) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- b.call(ctx, r, hang) }()
	synctest.Wait()
	return out
}

func empty() nodesync.Report { return nodesync.Report{Complete: true} }

func running(r space.Route) nodesync.Report {
	return nodesync.Report{Complete: true, Executions: []nodesync.ExecutionReport{{Route: r, State: space.ExecutionRunning}}}
}

func TestHangsUntilThereAreOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		done := b.start(t.Context(), empty(), time.Minute)
		time.Sleep(time.Second) // the bubble's time
		b.store.want(record.WantedExecution{Route: route, Want: record.WantRunning, Recorded: space.ExecutionPending})
		b.bell.Ring(wake.Node("n"))
		got := <-done
		if got.err != nil || len(got.orders) != 1 || got.orders[0].Kind != nodesync.EnsureExecution || got.after != time.Second {
			t.Errorf("%+v", got)
		}
	})
}

// TestABusyNodeGetsOrdersTogether: the first ones are given as they come. While a node is at work on as many, those that come in a row share an answer.
func TestABusyNodeGetsOrdersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		began := time.Now()
		var wanted []record.WantedExecution
		want := func() {
			wanted = append(wanted, record.WantedExecution{Route: newRoute(), Want: record.WantRunning, Recorded: space.ExecutionPending})
			b.store.want(wanted...)
			b.bell.Ring(wake.Node("n"))
			synctest.Wait()
		}
		var at []time.Duration
		var orders []int
		for ordered := 0; ordered < 8; {
			done := b.start(t.Context(), report(wanted), time.Minute)
			time.Sleep(time.Millisecond)
			for len(wanted) < 8 {
				if want(); len(done) > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			got := <-done
			ordered += len(got.orders)
			at, orders = append(at, time.Since(began)/time.Millisecond), append(orders, len(got.orders))
		}
		if want := []int{1, 1, 1, 1, 4}; !slices.Equal(orders, want) || at[4]-at[3] != nodesync.OrderGap/time.Millisecond {
			t.Errorf("%v orders came at %v ms, want %v and the last ones %s after those before", orders, at, want, nodesync.OrderGap)
		}
	})
}

// report is what a node says that has begun with what was wanted of it.
func report(wanted []record.WantedExecution) nodesync.Report {
	out := empty()
	for _, w := range wanted {
		out.Executions = append(out.Executions, nodesync.ExecutionReport{Route: w.Route, State: space.ExecutionPending})
	}
	return out
}

func TestHangsNoLongerThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		for _, x := range []struct{ asked, want time.Duration }{{0, 0}, {-1, 0}, {time.Second, time.Second}, {time.Hour, nodesync.MaxHang}} {
			if got := b.call(t.Context(), empty(), x.asked); got.err != nil || len(got.orders) > 0 || got.after != x.want {
				t.Errorf("asked for %s: %+v", x.asked, got)
			}
		}
	})
}

// TestMissedWakeUp changes what is wanted without a word, as another process would.
func TestMissedWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		done := b.start(t.Context(), empty(), time.Minute)
		b.store.want(record.WantedExecution{Route: newRoute(), Want: record.WantRunning, Recorded: space.ExecutionPending})
		if got := <-done; got.err != nil || len(got.orders) != 1 || got.after > 2*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestNewerCallTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		older := b.start(t.Context(), empty(), time.Minute)
		newer := b.start(t.Context(), running(route), time.Second)
		if got := <-older; got.err != nil || len(got.orders) > 0 || got.after != 0 {
			t.Errorf("the older call: %+v", got)
		}
		if got := <-newer; got.err != nil || len(got.orders) != 1 || got.orders[0].Kind != nodesync.RemoveExecution {
			t.Errorf("the newer call: %+v", got)
		}
	})
}

func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		ctx, cancel := context.WithCancel(t.Context())
		done := b.start(ctx, empty(), time.Minute)
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) || got.after != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestOrdersAreRepeated has a node that doesn't seem to have heard an order, and then one that is at work on it.
func TestOrdersAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		b.store.want(record.WantedExecution{Route: route, Want: record.WantRunning, Recorded: space.ExecutionPending})
		if got := b.call(t.Context(), empty(), time.Minute); got.after != 0 || len(got.orders) != 1 {
			t.Errorf("at first: %+v", got)
		}
		if got := b.call(t.Context(), empty(), time.Minute); got.after == 0 || got.after > time.Second || len(got.orders) != 1 {
			t.Errorf("unheard: %+v", got)
		}
		atWork := nodesync.Report{Complete: true, Executions: []nodesync.ExecutionReport{{Route: route, State: space.ExecutionPending}}}
		if got := b.call(t.Context(), atWork, time.Minute); got.after < time.Second || len(got.orders) != 1 {
			t.Errorf("at work: %+v", got)
		}
	})
}

// TestAbsenceIsAskedTwice has a machine vanish: the call returns at once for another report, and only that makes it lost.
func TestAbsenceIsAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		b.store.want(record.WantedExecution{Route: route, Want: record.WantRunning, Recorded: space.ExecutionRunning})
		news, stop := b.bell.Listen(route.Sandbox)
		defer stop()
		if got := b.call(t.Context(), empty(), time.Minute); got.err != nil || got.after != 0 || len(got.orders) > 0 {
			t.Errorf("at first: %+v", got)
		}
		if got := b.call(t.Context(), running(route), time.Second); got.err != nil || got.after != time.Second {
			t.Errorf("it was there after all: %+v", got)
		}
		b.call(t.Context(), empty(), time.Minute)
		select {
		case <-news:
			t.Error("news of a machine that was absent once")
		default:
		}
		b.call(t.Context(), empty(), time.Second)
		<-news
		last := b.store.seen[len(b.store.seen)-1].Executions
		if len(last) != 1 || last[0].State != space.ExecutionLost || last[0].Error == nil {
			t.Errorf("seen: %+v", last)
		}
	})
}

// TestDeletedWhileItHangs deletes a machine that the node hasn't got: a fresh report is needed to say that it's gone.
func TestDeletedWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		done := b.start(t.Context(), empty(), time.Minute)
		b.store.want(record.WantedExecution{Route: route, Want: record.WantGone, Recorded: space.ExecutionPending})
		b.bell.Ring(wake.Node("n"))
		if got := <-done; got.err != nil || got.after != 0 || len(got.orders) > 0 {
			t.Errorf("%+v", got)
		}
		b.call(t.Context(), empty(), 0)
		if last := b.store.seen[len(b.store.seen)-1].Executions; len(last) != 1 || last[0].State != space.ExecutionGone {
			t.Errorf("seen: %+v", last)
		}
	})
}

func TestNodeIsSeenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		for n := range 60 {
			report := empty()
			report.Facts.MemoryAvailableBytes, report.Facts.DiskFreeBytes = uint64(n), uint64(2*n) // which are others each time
			b.call(t.Context(), report, time.Second)
		}
		if n := len(b.store.seen); n < 3 || n > 5 {
			t.Errorf("recorded %d times within a minute", n)
		}
		before := len(b.store.seen)
		changed := empty()
		changed.Facts.Driver = "qemu"
		b.call(t.Context(), changed, 0)
		if len(b.store.seen) != before+1 || b.store.seen[before].Facts.Driver != "qemu" {
			t.Error("another driver wasn't recorded at once")
		}
	})
}

// TestStoreFails has the database away for a moment: the report isn't lost, since the node sends it again.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, route := newBubble(), newRoute()
		b.store.want(record.WantedExecution{Route: route, Want: record.WantRunning, Recorded: space.ExecutionPending})
		b.store.fail(space.Errorf(space.CodeUnavailable, "away"))
		if got := b.call(t.Context(), running(route), time.Minute); space.CodeOf(got.err) != space.CodeUnavailable {
			t.Errorf("%+v", got)
		}
		b.store.fail(nil)
		ended, stop := b.bell.Listen("op_1")
		defer stop()
		b.call(t.Context(), running(route), 0)
		<-ended
	})
}

// TestWarnsOfEnds holds that the operator is told of a machine that ended by itself, and not of one that goes on since its pause was refused.
func TestWarnsOfEnds(t *testing.T) {
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	for _, x := range []struct {
		name   string
		says   nodesync.ExecutionReport
		warned bool
	}{
		{name: "refused", says: nodesync.ExecutionReport{State: space.ExecutionRunning, Refused: "op_1", Refusal: space.Errorf(space.CodeConflict, "no memory")}},
		{name: "lost", says: nodesync.ExecutionReport{State: space.ExecutionLost, Error: space.Errorf(space.CodeExecutionLost, "it died")}, warned: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			log.Reset()
			b := newBubble()
			x.says.Route = newRoute()
			b.store.want(record.WantedExecution{Route: x.says.Route, Want: record.WantPaused, Recorded: space.ExecutionRunning, Operation: "op_1"})
			got := b.call(t.Context(), nodesync.Report{Complete: true, Executions: []nodesync.ExecutionReport{x.says}}, 0)
			if len(b.store.seen) != 1 || len(b.store.seen[0].Executions) != 1 || got.err != nil {
				t.Fatalf("%s: wrote %+v, %v", x.name, b.store.seen, got.err)
			}
			if warned := strings.Contains(log.String(), "ended by itself"); warned != x.warned {
				t.Errorf("%s: the operator is told %q", x.name, log.String())
			}
		})
	}
}
