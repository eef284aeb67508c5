package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/keys"
)

// lookEvery is how often it's looked whether the key of a request that is held open is still good. A key that is revoked by this process
// is noticed at once.
const lookEvery = 3 * time.Second

var errKeyEnded = errors.New("the API key was revoked, has expired or may less than before")

// lasting reports whether a request may be held open: one that waits for an operation, or a stream.
func lasting(r *http.Request) bool { return r.URL.Query().Has("wait") || wantsStream(r) }

// wantsStream reports whether a client asks for events as they come.
func wantsStream(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for media := range strings.SplitSeq(accept, ",") {
			media, _, _ = strings.Cut(media, ";")
			if strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
				return true
			}
		}
	}
	return false
}

// guard returns a context that ends when the caller's key does, or loses what the operation needs. Call stop, which waits for the guard.
func (a authenticator) guard(ctx context.Context, i identity, needs space.Permission) (guarded context.Context, stop func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	rung, unlisten := a.bell.Listen(i.key.ID)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer unlisten()
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-guarded.Done():
				return
			case <-rung:
			case <-look.C:
			}
			if a.ended(guarded, i, needs) {
				cancel(errKeyEnded)
			}
		}
	})
	return guarded, func() { cancel(nil); wg.Wait() }
}

// ended reports whether a key is known to be good no more. While the database doesn't answer, nothing new is known.
func (a authenticator) ended(ctx context.Context, i identity, needs space.Permission) bool {
	k, err := keys.Authenticate(ctx, a.store, i.secret)
	if err != nil {
		return space.CodeOf(err) == space.CodeUnauthenticated
	}
	return permit(k, needs) != nil
}

// keyEnded reports whether a request's context ended with its key, as an error to answer with.
func keyEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errKeyEnded) {
		return space.Errorf(space.CodeUnauthenticated, "%w", errKeyEnded)
	}
	return nil
}
