package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/telemetry"
)

// Origin is what a machine was started for, as its metric names it.
type Origin string

// The origins of machines.
const (
	Load  Origin = "load"  // an execution, from a snapshot
	Boot  Origin = "boot"  // an execution, from its disk
	Slot  Origin = "slot"  // the pool
	Build Origin = "build" // a template, or a snapshot of one
	Test  Origin = "test"  // to find out whether the driver works
)

// ErrUnmet is wrapped where a machine was started and its guest never answered. On a busy host that happens to one now and then, and not to the next:
// who started it tries once more.
var ErrUnmet = errors.New("the guest didn't come up")

var unmet = telemetry.NewCounter("space_host_machines_unmet_total", "Machines that were started and whose guest never answered, by what they were for: load, boot, slot, build or test.", "for")

// Started is the error of a driver's start. If the VMM ended by itself, its guest won't answer either: that's logged, and the error wraps ErrUnmet.
func Started(ctx context.Context, o Origin, err error) error {
	if !errors.Is(err, vmm.ErrGone) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	unmet.WithLabelValues(string(o)).Inc()
	slog.WarnContext(ctx, "a machine ended while it started", "for", string(o), "err", err)
	return fmt.Errorf("%w: %w", ErrUnmet, err)
}

// Meet is the first greeting of a machine that was just started. If its guest never answers, what its VMM and its kernel said last is logged, and the
// error wraps ErrUnmet; unless that's since ctx was cancelled.
func Meet(ctx context.Context, m vmm.Machine, o Origin, s link.Sync) (*link.Link, error) {
	l, err := Greet(ctx, m, s)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return l, err
	}
	unmet.WithLabelValues(string(o)).Inc()
	slog.WarnContext(ctx, "a machine was started, and its guest never answered", "for", string(o), "execution", s.Execution, "err", err, "said", m.LastWords())
	return nil, fmt.Errorf("%w: %w", ErrUnmet, err)
}
