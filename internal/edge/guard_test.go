package edge

import (
	"context"
	"testing"
	"time"

	space "github.com/space-platform/space"
)

// TestStreamsEndWithTheirToken has the control plane say that a token is good no more, while what it has opened is open.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for _, x := range []struct {
		name  string
		error space.Code
		ends  bool // a watch, by the sandbox's token
		both  bool // an attach as well, by the session's
	}{
		{"revoked", space.CodeUnauthenticated, true, true}, {"expired", space.CodeTokenExpired, true, false},
		{"stopped", space.CodeConflict, false, false}, {"not answered", space.CodeUnavailable, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t)
			r.timing.look, r.timing.keepAlive = 5*time.Millisecond, 5*time.Millisecond
			r.attach = hangs(make(chan struct{}), started())
			r.call = watches(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			attach, watch := r.open(t), r.ask(t, "GET", r.files("/watch?path=/"), nil)
			attach.mustNext(t)
			watch.mustNext(t)
			asked := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.asked) }
			r.mu.Lock()
			r.plane = func(any) error { return space.Errorf(x.error, "no") }
			r.mu.Unlock()
			for stream, ends := range map[*client]bool{attach: x.both, watch: x.ends} {
				before := asked()
				for e := stream.mustNext(t); ; e = stream.mustNext(t) {
					if e.name == "ended" && e.data == `{"reason":"token_ended"}` && ends {
						break
					}
					if e.name != ":" {
						t.Fatalf("%+v, ends: %v", e, ends)
					}
					if !ends && asked() > before+10 {
						break
					}
				}
			}
		})
	}
}
