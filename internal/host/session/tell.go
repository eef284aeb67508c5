package session

import (
	"context"
	"fmt"
	"time"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/ring"
)

// stdinRest is stdin from an offset on.
type stdinRest struct {
	offset uint64
	data   []byte
}

func (s *Session) sendStdin(ctx context.Context, st *link.Stream, rest stdinRest) error {
	for len(rest.data) > 0 {
		n := min(len(rest.data), stdinChunk)
		chunk := &guestv1.StdinChunk{Offset: rest.offset, Data: rest.data[:n]}
		if err := send(ctx, st, &guestv1.ToSession{Message: &guestv1.ToSession_Stdin{Stdin: chunk}}); err != nil {
			return unlessDone(ctx, fmt.Errorf("send stdin of session %s: %w", s.id, err))
		}
		rest.offset, rest.data = rest.offset+uint64(n), rest.data[n:]
	}
	return nil
}

// acknowledge tells the guest how much is kept, seldom enough not to cost and often enough not to hold it up.
func acknowledge(ctx context.Context, st *link.Stream, log *ring.Ring, told uint64, kept <-chan struct{}) error {
	for {
		select {
		case <-kept:
		case <-ctx.Done():
			return nil
		}
		for delay := time.After(ackDelay); log.End()-told < ackBytes; {
			select {
			case <-kept:
				continue
			case <-delay:
			case <-ctx.Done():
				return nil
			}
			break
		}
		end := log.End()
		if err := send(ctx, st, &guestv1.ToSession{Message: &guestv1.ToSession_Acknowledged{Acknowledged: end}}); err != nil {
			return unlessDone(ctx, fmt.Errorf("acknowledge output: %w", err))
		}
		told = end
	}
}
