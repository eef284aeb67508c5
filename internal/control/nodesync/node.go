package nodesync

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	// MaxHang bounds how long a call hangs, whatever the node asks for.
	MaxHang = 30 * time.Second
	// pollEvery is the safety net for a wake-up that was lost.
	pollEvery = 2 * time.Second
	// seeEvery is how exactly it's recorded when a node was last heard of, and what it has free: to write that with each call costs each call a commit.
	seeEvery = 15 * time.Second
	// orderGap is how far answers with orders are apart while the node is at work on so many: those that come in a row share one, which the node writes down and
	// calls again after. A node that has little to do gets each order at once.
	orderGap   = 15 * time.Millisecond
	manyOrders = 4
)

// Store keeps what is wanted and what is observed.
type Store interface {
	Wanted(ctx context.Context, node string) (record.Wanted, error)
	Observe(ctx context.Context, seen record.Seen) (ended []string, err error)
	BuildOrder(ctx context.Context, template string) (record.BuildOrder, error)
}

// Activity is told when something was done with a sandbox.
type Activity interface {
	Seen(sandbox string, at time.Time)
	Sent(sandbox string, at time.Time) // it sent something to the network
}

// Node synchronizes one node. Its calls take turns: a newer one ends the one before it, so that what a node said last is decided last.
type Node struct {
	name     string
	store    Store
	activity Activity
	bell     *wake.Bell

	mu     sync.Mutex              // guards cancel
	cancel context.CancelCauseFunc // of the newest call

	turn    chan struct{}   // holds one value while a call has its turn; what follows belongs to that call
	facts   record.Facts    // as written last
	seenAt  time.Time       // when they were; zero: never by this process
	doubted map[string]bool // by the last plan
	ordered time.Time       // when orders were given last
	sent    sent

	figures  figures
	pressure pressure
}

// NewNode returns the synchronization of the node of that name. It rings the operations that end and the sandboxes that change, and
// listens for the node's own key.
func NewNode(name string, store Store, activity Activity, bell *wake.Bell) *Node {
	return &Node{name: name, store: store, activity: activity, bell: bell, turn: make(chan struct{}, 1), sent: sent{}}
}

var errOvertaken = errors.New("a newer call of the node took over")

// Synchronize writes what is new in a report and returns the node's orders. It hangs while there are none, for at most hang or MaxHang.
// It returns without orders when the time is over, when the report brought lines of a log, when another report is needed at once, and when
// a newer call has come.
//
// Errors: conflict (a newer call has come before this report was looked at), and the store's.
func (n *Node) Synchronize(ctx context.Context, report Report, hang time.Duration) (Answer, error) {
	ctx, leave, err := n.enter(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	n.figures.take(report)
	n.noteActivity(report)
	n.pressure.take(report, time.Now())
	rung, stop := n.bell.Listen(wake.Node(n.name))
	defer stop()
	plan, err := n.observe(context.WithoutCancel(ctx), report) // what was said is true even if its speaker goes
	if err != nil {
		return Answer{}, err
	}
	return n.hang(ctx, report, plan, rung, min(hang, MaxHang))
}

// activeNews is how old activity may be that is news: a node tells it when it calls, again and again.
const activeNews = 10 * MaxHang

// minEgress is how many bytes a sandbox must have sent between two of its figures, some seconds, to have sent something: its kernel by itself sends a little.
const minEgress = 1 << 10

// noteActivity tells when something last passed between clients and executions, and when these sent something. A node whose clock is ahead can't keep a sandbox awake
// longer than one that is right.
func (n *Node) noteActivity(report Report) {
	now := time.Now()
	for _, e := range report.Executions {
		if at := e.Active; now.Sub(at) < activeNews {
			n.activity.Seen(e.Route.Sandbox, earlier(at, now))
		}
		if at, bytes := n.figures.sent(e.Route); bytes >= minEgress && now.Sub(at) < activeNews {
			n.activity.Sent(e.Route.Sandbox, earlier(at, now))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// enter waits for the turn, which the call before gives up when it learns of this one.
func (n *Node) enter(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	n.mu.Lock()
	if n.cancel != nil {
		n.cancel(errOvertaken)
	}
	n.cancel = cancel
	n.mu.Unlock()
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, interrupted(ctx)
	}
	leave := func() { <-n.turn; cancel(nil) }
	if ctx.Err() != nil {
		leave()
		return nil, nil, interrupted(ctx)
	}
	return ctx, leave, nil
}

func overtaken(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errOvertaken) }

func interrupted(ctx context.Context) error {
	if overtaken(ctx) {
		return space.Errorf(space.CodeConflict, "%w", errOvertaken)
	}
	return context.Cause(ctx)
}

// observe decides about a report that has just come, and writes what is new.
func (n *Node) observe(ctx context.Context, report Report) (Plan, error) {
	wanted, err := n.store.Wanted(ctx, n.name)
	if err != nil {
		return Plan{}, err
	}
	now := time.Now()
	plan := Decide(wanted, report, n.doubted, now)
	seen := record.Seen{Node: n.name, Executions: plan.Executions, Templates: plan.Templates, Logs: plan.Logs, Sessions: report.Sessions, Uploads: plan.Uploads, Snapshots: plan.Snapshots}
	if report.Facts.Differ(n.facts) || now.Sub(n.seenAt) >= seeEvery {
		seen.Facts = &report.Facts
	}
	if seen.Empty() {
		return plan, nil
	}
	ended, err := n.store.Observe(ctx, seen)
	if err != nil {
		return Plan{}, err
	}
	if seen.Facts != nil {
		n.tellFacts(report.Facts)
		n.facts, n.seenAt = report.Facts, now
	}
	n.announce(plan, ended)
	return plan, nil
}

// announce wakes those who wait for what was written, and tells the operator of what went wrong.
func (n *Node) announce(plan Plan, ended []string) {
	n.bell.Ring(ended...)
	for _, e := range plan.Executions {
		n.bell.Ring(e.Route.Sandbox)
		if e.State == space.ExecutionFailed || e.State == space.ExecutionRunning && e.Route.Epoch > 1 {
			n.bell.Ring(wake.Node(n.name)) // it's a fork's child, say, and is to go, or what it takes the place of isn't needed any more
		}
		if e.Error != nil && e.Refused == "" { // what is refused goes on, and its operation says why
			slog.Warn("an execution ended by itself", "node", n.name, "sandbox", e.Route.Sandbox, "execution", e.Route.Execution,
				"state", string(e.State), "err", e.Error)
		}
	}
	if len(plan.Snapshots) > 0 {
		n.bell.Ring(wake.Node(n.name)) // there may be executions to be loaded from them
	}
	for _, s := range plan.Snapshots {
		if s.Status.Error != nil {
			slog.Warn("a snapshot couldn't be made, or is lost", "node", n.name, "snapshot", s.ID, "state", string(s.Status.State), "err", s.Status.Error)
		}
	}
	for _, l := range plan.Logs {
		n.bell.Ring(l.Template)
	}
	for _, t := range plan.Templates {
		n.bell.Ring(t.ID)
		if t.Status.Error != nil {
			// Not its message: that has what the build printed.
			slog.Warn("a template's build failed", "node", n.name, "template", t.ID, "step", t.Status.FailedStep, "code", string(t.Status.Error.Code))
		}
	}
}

// hang returns when there is something to tell, when the plan needs another report, or when the time is over.
func (n *Node) hang(ctx context.Context, report Report, plan Plan, rung <-chan struct{}, hang time.Duration) (Answer, error) {
	over := time.NewTimer(hang)
	defer over.Stop()
	for {
		due, again := n.sent.due(plan, time.Now())
		if len(due) > 0 || len(plan.Doubts) > 0 || len(plan.LogsReceived) > 0 || len(report.told) > 0 || hang <= 0 {
			return n.answer(ctx, report, plan, due)
		}
		poll := time.NewTimer(min(again, pollEvery))
		select {
		case <-rung:
			n.keepApart(ctx)
		case <-poll.C:
		case <-over.C:
			poll.Stop()
			return n.answer(ctx, report, plan, nil)
		case <-ctx.Done():
			poll.Stop()
			return n.answer(ctx, report, plan, nil)
		}
		poll.Stop()
		wanted, err := n.store.Wanted(context.WithoutCancel(ctx), n.name)
		if err != nil {
			return Answer{}, err
		}
		// What would be observed now waits for a fresh report: only orders and doubts count.
		plan = Decide(wanted, report, nil, time.Now())
	}
}

// keepApart returns when orders may be given again, or when the call is over.
func (n *Node) keepApart(ctx context.Context) {
	if len(n.sent) < manyOrders {
		return
	}
	select {
	case <-time.After(orderGap - time.Since(n.ordered)):
	case <-ctx.Done():
	}
}

// answer remembers what the node is told. A caller that is gone hears nothing; one that only has a newer call under way still listens.
func (n *Node) answer(ctx context.Context, report Report, plan Plan, due []Order) (Answer, error) {
	if ctx.Err() != nil && !overtaken(ctx) {
		return Answer{}, context.Cause(ctx)
	}
	out, err := n.complete(context.WithoutCancel(ctx), Answer{Orders: due, LogsReceived: plan.LogsReceived, SessionEndsReceived: report.told})
	if err != nil {
		return Answer{}, err
	}
	n.doubted = plan.Doubts
	n.sent.mark(due, time.Now())
	if len(due) > 0 {
		n.ordered = time.Now()
	}
	return out, nil
}

// complete adds what the templates to be built are made of. One that was deleted meanwhile is left out.
func (n *Node) complete(ctx context.Context, a Answer) (Answer, error) {
	orders := a.Orders
	a.Orders, a.Builds = nil, map[string]record.BuildOrder{}
	for _, o := range orders {
		if o.Kind == EnsureTemplate {
			b, err := n.store.BuildOrder(ctx, o.Template)
			if space.CodeOf(err) == space.CodeNotFound {
				continue
			}
			if err != nil {
				return Answer{}, err
			}
			a.Builds[o.Template] = b
		}
		a.Orders = append(a.Orders, o)
	}
	return a, nil
}
