package edge

import (
	"context"
	"errors"
	"sync"
	"time"

	space "github.com/space-platform/space"
)

var errTokenEnded = errors.New("the token was revoked or has expired")

// guard returns a context that ends when the token that a stream was opened with does: the control plane is asked from time to time. While
// it doesn't answer, nothing new is known. Call stop, which waits for the guard.
func (e *Edge) guard(r *request, resolve func(context.Context, *request) (*target, error)) (guarded context.Context, stop func()) {
	guarded, cancel := context.WithCancelCause(r.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		look := time.NewTicker(e.timing.look)
		defer look.Stop()
		for {
			select {
			case <-guarded.Done():
				return
			case <-look.C:
			}
			if _, err := resolve(guarded, r); tokenEnded(r.material, err) {
				cancel(errTokenEnded)
			}
		}
	})
	return guarded, func() { cancel(nil); wg.Wait() }
}

// tokenEnded reports whether an error says that a token opens nothing any more. An attachment token only has a time in which to attach.
func tokenEnded(m material, err error) bool {
	switch space.CodeOf(err) {
	case space.CodeUnauthenticated:
		return true
	case space.CodeTokenExpired:
		return m != attachmentToken
	}
	return false
}

// reasonOver is why a stream ends whose context is over.
func reasonOver(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errTokenEnded) {
		return reasonTokenEnded
	}
	return reasonShuttingDown
}
