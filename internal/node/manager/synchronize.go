package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
)

// Limits of the conversation with the control plane.
const (
	maxHang     = 25 * time.Second // how long a call may hang; the contract allows 30 s
	answerTime  = 15 * time.Second // how long an answer may take beyond the hang
	maxInterval = 30 * time.Second // the longest call_again_after that is obeyed
	quickAnswer = 200 * time.Millisecond
)

// synchronize holds the one conversation with the control plane until its context ends.
//
// A call with news doesn't hang and is never cut off, so its answer's orders always arrive, also on a node that changes all the time.
// A call without news hangs, and the next change cuts it off: the one after it has news. While the control plane can't be
// reached nothing but the conversation stops.
func (m *Manager) synchronize(ctx context.Context) {
	t := talk{
		trouble: backoff{first: m.timing.talkFirst, most: m.timing.talkMost},
		idle:    backoff{first: m.timing.talkFirst, most: m.timing.talkMost},
	}
	for ctx.Err() == nil {
		m.exchange(ctx, &t)
	}
}

// talk is what synchronize remembers from call to call.
type talk struct {
	told    uint64  // version of the last report that was answered
	trouble backoff // after calls that failed
	idle    backoff // after answers whose orders change nothing, which would otherwise go round as fast as they can
}

// exchange makes one call and does what its answer says, waits included.
func (m *Manager) exchange(ctx context.Context, t *talk) {
	rep := m.table.report()
	news, began := rep.version != t.told, time.Now()
	resp, err := m.ask(ctx, rep, news)
	if ctx.Err() != nil || err != nil && isClosed(rep.changed) && !news {
		return
	}
	var changed bool
	if err == nil {
		changed, err = m.table.obey(resp.GetOrders(), rep)
	}
	if err != nil {
		slog.Warn("no exchange with the control plane; will try again", "err", err)
		wait(ctx, t.trouble.next(), nil)
		return
	}
	t.told = rep.version
	t.trouble.reset()
	if changed || news || time.Since(began) >= quickAnswer {
		t.idle.reset()
		wait(ctx, min(resp.GetCallAgainAfter().AsDuration(), maxInterval), rep.changed)
		return
	}
	wait(ctx, t.idle.next(), rep.changed)
}

// ask makes the call. One without news hangs until there is something to order, and ends when a newer report would say something else.
func (m *Manager) ask(ctx context.Context, rep report, news bool) (*controlv1.SynchronizeResponse, error) {
	hang := maxHang
	if news {
		hang = 0
	}
	ctx, cancel := context.WithTimeout(ctx, hang+answerTime)
	defer cancel()
	if !news {
		defer cancelWhen(rep.changed, cancel)()
	}
	rep.msg.MaxHang = durationpb.New(hang)
	resp, err := m.control.Synchronize(ctx, connect.NewRequest(rep.msg))
	if err != nil {
		return nil, fmt.Errorf("synchronize: %w", peer.FromConnect(err))
	}
	return resp.Msg, nil
}

// cancelWhen calls cancel when happened is closed, until the returned function has been called.
func cancelWhen(happened <-chan struct{}, cancel func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-happened:
			cancel()
		case <-quit:
		}
	}()
	return func() { close(quit); <-done }
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
