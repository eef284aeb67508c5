package client

import (
	"context"
	"errors"
)

// persist connects until it is done (errStop), comes back with growing pauses after a failure that may be mended, and gives up after
// attachMost in a row that brought nothing; that a sandbox is suspended is no failure, and is waited for. When the token is refused, renew gets another one; nil: there's none. A new one that is refused
// before it brought anything ends it.
func persist(ctx context.Context, connect func(context.Context) (progress bool, err error), renew func(context.Context) error) error {
	pause, renewed := attachFirst, false
	for failures := 0; ; {
		progress, err := connect(ctx)
		if progress {
			failures, pause, renewed = 0, attachFirst, false
		}
		again := false
		if refusedToken(err) && renew != nil && !renewed {
			if failure := renew(ctx); failure != nil {
				err = failure
			} else {
				again, renewed = true, true
			}
		}
		switch {
		case errors.Is(err, errStop):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !again && !mendable(err):
			return err
		}
		if !errors.Is(err, errSuspended) {
			failures++
		}
		if failures == attachMost {
			return err
		}
		if err := wait(ctx, jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, attachLongest)
	}
}
