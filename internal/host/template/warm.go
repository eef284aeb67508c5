package template

import (
	"context"
	"fmt"
	"strings"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
)

// warmTimeout is how long one warm-up command may take, on a loaded machine under emulation.
const warmTimeout = 2 * time.Minute

// warm runs what has its pages in the snapshot then. Nobody knows what's in an image: there the guest only tries what sessions usually do,
// and whatever comes of it, the way to there is warm.
func (b *builder) warm(ctx context.Context, sessions *session.Set) error {
	if b.order.Recipe == "" {
		_, err := b.warmUp(ctx, sessions, b.spec(":"))
		return err
	}
	r, err := rootfs.Find(b.order.Recipe)
	if err != nil {
		return err
	}
	for _, c := range r.Warmup {
		b.now("warming up: " + strings.Join(c.Argv, " "))
		exit, err := b.warmUp(ctx, sessions, &sessionv1.Spec{Argv: c.Argv, User: c.User})
		if err == nil {
			err = exitError(exit, nil)
		}
		if err != nil {
			return fmt.Errorf("warm up with %q: %w", c.Argv[0], err)
		}
	}
	return nil
}

func (b *builder) warmUp(ctx context.Context, sessions *session.Set, spec *sessionv1.Spec) (*sessionv1.Exit, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, warmTimeout, space.Errorf(space.CodeTimeout, "a command didn't end within %s", warmTimeout))
	defer cancel()
	return follow(ctx, sessions, spec, func(string) {})
}
