package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
)

// Limits of the conversation with the control plane.
const (
	maxHang     = 25 * time.Second // how long a call may hang; the contract allows 30 s
	runningHang = 10 * time.Second // the same while something runs, whose figures are to be fresh
	answerTime  = 15 * time.Second // how long an answer may take beyond the hang
	maxInterval = 30 * time.Second // the longest call_again_after that is obeyed
	quickAnswer = 200 * time.Millisecond
	endTime     = time.Second            // how long an overtaken call may take to end by itself
	passedTime  = 20 * time.Millisecond  // the same once the one that overtook it has its answer
	minGap      = 20 * time.Millisecond  // between one overtaking and the next: so changes coalesce, and one alone is told at once
	maxGap      = 250 * time.Millisecond // to which that grows while overtaken calls bring no answer
)

// synchronize holds the one conversation with the control plane until its context ends.
//
// A call hangs while there's nothing to order. When the node's state changes it's overtaken: the next call starts, the control plane ends
// the one before it, and its answer, if it was under way already, is taken before the next one's. So orders aren't lost by the way, and
// answers are taken in the order of their calls. While the control plane can't be reached nothing but the conversation stops.
func (m *Manager) synchronize(ctx context.Context) {
	t := talk{
		trouble: backoff{first: m.timing.talkFirst, most: m.timing.talkMost},
		idle:    backoff{first: m.timing.idleFirst, most: m.timing.talkMost},
		gap:     minGap,
	}
	c := m.ask(ctx)
	for ctx.Err() == nil {
		next := m.await(ctx, c, t.overtook.Add(t.gap))
		if next != nil {
			t.overtook = next.began
		}
		m.take(ctx, c, next != nil, &t)
		if c = next; c == nil {
			c = m.ask(ctx)
		}
	}
	c.end(0)
}

// talk is what synchronize remembers from call to call.
type talk struct {
	told     uint64        // version of the last report that was answered
	trouble  backoff       // after calls that failed
	idle     backoff       // after answers that bring nothing new, which would otherwise go round as fast as they can
	gap      time.Duration // between one overtaking and the next
	overtook time.Time     // when the last one was
}

// call is one Synchronize under way.
type call struct {
	report
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when resp and err are set
	resp   *controlv1.SynchronizeResponse
	err    error
}

// ask starts a call with what is to be said now. It must be ended.
func (m *Manager) ask(ctx context.Context) *call {
	ctx, cancel := context.WithTimeout(ctx, maxHang+answerTime)
	c := &call{report: m.table.report(), began: time.Now(), cancel: cancel, done: make(chan struct{})}
	c.msg.MaxHang = durationpb.New(hang(c.msg))
	go func() {
		defer close(c.done)
		resp, err := m.control.Synchronize(ctx, connect.NewRequest(c.msg))
		if err != nil {
			c.err = fmt.Errorf("synchronize: %w", peer.FromConnect(err))
			return
		}
		c.resp = resp.Msg
	}()
	return c
}

// hang is how long the call that brings a report may hang.
func hang(m *controlv1.SynchronizeRequest) time.Duration {
	for _, e := range m.GetExecutions() {
		if e.GetState() == string(space.ExecutionRunning) {
			return runningHang
		}
	}
	return maxHang
}

// end returns when the call has ended, which it may do by itself within d.
func (c *call) end(d time.Duration) {
	wait(context.Background(), d, c.done)
	c.cancel()
	<-c.done
}

// await returns when a call has ended. If there is something new to say before, it starts the next one, from the given time on.
func (m *Manager) await(ctx context.Context, c *call, from time.Time) (next *call) {
	defer func() {
		if next == nil {
			c.end(0)
		}
	}()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return nil
	case <-c.changed:
	}
	wait(ctx, time.Until(from), c.done)
	if isClosed(c.done) || ctx.Err() != nil {
		return nil
	}
	next = m.ask(ctx)
	c.giveWay(next)
	return next
}

// giveWay returns when a call has ended that another one overtook. If that other one is answered first, they have probably passed each other on their way: this one
// came later, is the newest to the control plane, and would hang on there with the older report. What it may have been told is told again.
func (c *call) giveWay(next *call) {
	limit := time.NewTimer(endTime)
	defer limit.Stop()
	select {
	case <-c.done:
	case <-limit.C:
	case <-next.done:
		wait(context.Background(), passedTime, c.done)
	}
	c.end(0)
}

// take does what a call's answer says, waits included.
func (m *Manager) take(ctx context.Context, c *call, overtaken bool, t *talk) {
	var changed bool
	err := c.err
	if err == nil {
		changed, err = m.table.obey(c.resp.GetOrders(), c.report)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil && overtaken:
		t.gap = min(2*t.gap, maxGap)
	case err != nil:
		if t.trouble.last == 0 { // once per outage
			slog.Warn("no exchange with the control plane; will try again", "err", err)
		}
		wait(ctx, t.trouble.next(), nil)
	default:
		m.received(c.resp)
		m.answered(ctx, c, changed, overtaken, t)
	}
}

func (m *Manager) answered(ctx context.Context, c *call, changed, overtaken bool, t *talk) {
	news := c.version != t.told
	t.told, t.gap = c.version, minGap
	t.trouble.reset()
	pause := min(c.resp.GetCallAgainAfter().AsDuration(), maxInterval)
	if changed || news || time.Since(c.began) >= quickAnswer {
		t.idle.reset()
	} else {
		pause = max(pause, t.idle.next())
	}
	if !overtaken {
		wait(ctx, pause, c.changed)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
