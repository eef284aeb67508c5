package client

import (
	"context"
	"errors"
)

// persist connects until it is done (errStop), comes back with growing pauses after a failure that may be mended, and gives up after
// attachMost in a row that brought nothing. renew, if there is one, is called with the failure before each next try.
func persist(ctx context.Context, connect func(context.Context) (progress bool, err error), renew func(context.Context, error) error) error {
	pause := attachFirst
	for failures := 0; ; {
		progress, err := connect(ctx)
		switch {
		case errors.Is(err, errStop):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !mendable(err):
			return err
		case progress:
			failures, pause = 0, attachFirst
		}
		if failures++; failures == attachMost {
			return err
		}
		if err := wait(ctx, jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, attachLongest)
		if renew == nil {
			continue
		}
		if err := renew(ctx, err); err != nil {
			return err
		}
	}
}
