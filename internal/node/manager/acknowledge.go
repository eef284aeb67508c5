package manager

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// acknowledgeTimeout bounds how long the host may take to hear what has arrived.
const acknowledgeTimeout = 5 * time.Second

// received hands what the control plane has of builds' logs, and of the ends of sessions, to acknowledge, and the uploads that it wants no more. While
// that is busy it's dropped: what isn't acknowledged or removed is reported again, and an answer speaks of it again.
func (m *Manager) received(a *controlv1.SynchronizeResponse) {
	unwanted := unwantedUploads(a.GetOrders())
	if len(a.GetLogsReceived()) == 0 && len(a.GetSessionEndsReceived()) == 0 && len(unwanted) == 0 {
		return
	}
	m.table.endsArrived(a.GetSessionEndsReceived())
	select {
	case m.arrived <- &hostv1.AcknowledgeRequest{LogLines: a.GetLogsReceived(), SessionEnds: a.GetSessionEndsReceived(), UnwantedUploads: unwanted}:
	default:
		m.table.endsUnheard(a.GetSessionEndsReceived())
	}
}

func unwantedUploads(orders []*controlv1.Order) (ids []string) {
	for _, o := range orders {
		if u := o.GetRemoveUpload(); u != nil {
			ids = append(ids, u.GetUpload())
		}
	}
	return ids
}

// acknowledge tells the host what the control plane has, until ctx ends.
func (m *Manager) acknowledge(ctx context.Context) {
	for failing := false; ; {
		select {
		case arrived := <-m.arrived:
			err := m.acknowledgeOnce(ctx, arrived)
			if err != nil {
				m.table.endsUnheard(arrived.GetSessionEnds())
			}
			if err != nil && !failing && ctx.Err() == nil { // once per outage
				slog.Warn("the host wasn't told what has arrived; it is told with the next answer", "err", err)
			}
			failing = err != nil
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) acknowledgeOnce(ctx context.Context, arrived *hostv1.AcknowledgeRequest) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	_, err := m.host.Acknowledge(ctx, connect.NewRequest(arrived))
	return peer.FromConnect(err)
}

// endsArrived notes that the control plane has the ends of sessions, and that the host will be told: until it lists them no more they are left out of
// reports.
func (t *table) endsArrived(sessions []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range sessions {
		t.arrived[id] = true
	}
	t.forgetArrived()
}

// endsUnheard notes that the host wasn't told: the ends are reported again, and so acknowledged again.
func (t *table) endsUnheard(sessions []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range sessions {
		delete(t.arrived, id)
	}
	if len(sessions) > 0 {
		t.announce()
	}
}

// forgetArrived forgets the ends that the host doesn't list any more. mu is held.
func (t *table) forgetArrived() {
	listed := map[string]bool{}
	if t.host != nil {
		for _, e := range t.host.ends {
			listed[e.GetSession()] = true
		}
	}
	maps.DeleteFunc(t.arrived, func(id string, _ bool) bool { return !listed[id] })
}

// untold are the ends of sessions that a report has to bring. mu is held.
func (t *table) untold() []*controlv1.SessionEnd {
	return slices.DeleteFunc(slices.Clone(t.host.ends), func(e *controlv1.SessionEnd) bool { return t.arrived[e.GetSession()] })
}
