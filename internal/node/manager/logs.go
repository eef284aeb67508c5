package manager

import (
	"context"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// logsTimeout bounds how long the host may take to hear which lines have arrived.
const logsTimeout = 5 * time.Second

// received hands what the control plane says of builds' logs to acknowledge. While that is busy it's dropped: lines that aren't acknowledged
// are reported again, and the next answer says of them again that they have arrived.
func (m *Manager) received(logs map[string]uint64) {
	if len(logs) == 0 {
		return
	}
	select {
	case m.logs <- logs:
	default:
	}
}

// acknowledge tells the host which lines the control plane has, until ctx ends.
func (m *Manager) acknowledge(ctx context.Context) {
	for {
		select {
		case logs := <-m.logs:
			if err := m.acknowledgeOnce(ctx, logs); err != nil && ctx.Err() == nil {
				slog.Warn("the host wasn't told which lines of logs have arrived", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) acknowledgeOnce(ctx context.Context, logs map[string]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	_, err := m.host.AcknowledgeLogs(ctx, connect.NewRequest(&hostv1.AcknowledgeLogsRequest{Received: logs}))
	return peer.FromConnect(err)
}
