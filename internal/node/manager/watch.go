package manager

import (
	"context"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"

	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// watch keeps hearing the host until its context ends. One stream has ended before the next is opened, so messages never overtake
// each other.
func (m *Manager) watch(ctx context.Context) {
	b := backoff{first: m.timing.watchFirst, most: m.timing.watchMost}
	for ctx.Err() == nil {
		err := m.listen(ctx, &b)
		if ctx.Err() != nil {
			return
		}
		if b.last == 0 { // once per outage
			slog.Warn("the host's reports broke off; will listen again", "err", err)
		}
		wait(ctx, b.next(), nil)
	}
}

// listen takes in one stream of messages until it breaks.
func (m *Manager) listen(ctx context.Context, b *backoff) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.host.Watch(ctx, connect.NewRequest(&hostv1.WatchRequest{Life: m.table.store.life}))
	if err != nil {
		return fmt.Errorf("watch the host: %w", peer.FromConnect(err))
	}
	defer stream.Close()
	for stream.Receive() {
		if err := m.table.hear(stream.Msg()); err != nil {
			return fmt.Errorf("take in the host's report: %w", err)
		}
		b.reset()
	}
	return fmt.Errorf("watch the host: %w", peer.FromConnect(stream.Err()))
}
