package session

import (
	"context"
	"fmt"
	"time"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/ring"
)

// sendInput sends stdin from an offset on until its end, as far as the guest takes it.
func (s *Session) sendInput(ctx context.Context, st *link.Stream, sent uint64) error {
	for {
		offset, data, last, err := s.input.next(ctx, sent)
		if err != nil {
			return unlessDone(ctx, fmt.Errorf("send stdin of session %s: %w", s.id, err))
		}
		end := last && s.input.windows // else it knows the length
		if len(data) > 0 || end {
			chunk := &guestv1.StdinChunk{Offset: offset, Data: data, End: end}
			if err := send(ctx, st, &guestv1.ToSession{Message: &guestv1.ToSession_Stdin{Stdin: chunk}}); err != nil {
				return unlessDone(ctx, fmt.Errorf("send stdin of session %s: %w", s.id, err))
			}
		}
		if last {
			return nil
		}
		sent = offset + uint64(len(data))
	}
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
