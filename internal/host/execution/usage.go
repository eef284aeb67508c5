package execution

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/host/machine"
)

// How often figures are taken, and how old they may become. Reports go out every few seconds, so a report's is at most 15 s old.
const (
	usageInterval = 9 * time.Second
	usageAge      = time.Second      // of all of it, for somebody who asks
	guestAge      = 9 * time.Second  // of the guest's own: it's disturbed no more often
	diskAge       = time.Minute      // of the disk's: looking costs milliseconds
	guestPatience = 3 * time.Second  // for a guest that doesn't answer
	measureLimit  = 10 * time.Second // for all of it
	maxMeasuring  = 4                // executions at one time
)

// meter takes an execution's figures and keeps the newest. turn guards its fields.
type meter struct {
	turn    chan struct{}
	last    *sandboxv1.Usage // never changed once it's here; also guarded by the execution's mu for writing
	guest   *sandboxv1.GuestUsage
	guestAt time.Time
	disk    int64
	diskAt  time.Time
}

// measureAlways takes the figures again and again until ctx ends, at moments that differ from execution to execution.
func (e *execution) measureAlways(ctx context.Context) {
	wait := time.Second + rand.N(usageInterval-time.Second)
	for {
		pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		if _, err := e.measure(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("can't measure an execution", "err", err)
		}
		wait = usageInterval
	}
}

// Usage returns the figures of an execution that runs, at most a second old; those of its guest and its disk may be older.
func (t *Table) Usage(ctx context.Context, r space.Route) (*sandboxv1.Usage, error) {
	e, err := t.find(r)
	if err != nil {
		return nil, err
	}
	if _, err := e.openSessions(); err != nil {
		return nil, err
	}
	if isSignalled(e.ended) {
		return nil, e.endError()
	}
	u, err := e.measure(ctx)
	if err != nil && isSignalled(e.ended) {
		return nil, e.endError()
	}
	return u, err
}

// measure takes the figures unless there are fresh ones.
func (e *execution) measure(ctx context.Context) (*sandboxv1.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	for _, turn := range []chan struct{}{e.meter.turn, e.table.measuring} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, space.Errorf(space.CodeUnavailable, "the node is busy measuring; try again: %w", context.Cause(ctx))
		}
	}
	if u := e.newestUsage(); u != nil && time.Since(u.GetAt().AsTime()) < usageAge {
		return u, nil
	}
	u, err := e.take(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.meter.last = u
	e.mu.Unlock()
	return u, nil
}

// newestUsage returns the newest figures; nil before the first.
func (e *execution) newestUsage() *sandboxv1.Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.meter.last
}

// take takes the figures. The meter's turn is held.
func (e *execution) take(ctx context.Context) (*sandboxv1.Usage, error) {
	e.mu.Lock()
	place := e.place()
	e.mu.Unlock()
	u, err := e.cfg.Enclosures.Measure(place)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	m := &e.meter
	if now.Sub(m.diskAt) >= diskAge {
		if n, err := e.cfg.DiskUsage(ctx, e.file(diskName)); err == nil {
			m.disk, m.diskAt = n, now
		}
	}
	if now.Sub(m.guestAt) >= guestAge && e.report().State == space.ExecutionRunning {
		m.guest, m.guestAt = e.askGuest(ctx), now
	}
	return &sandboxv1.Usage{
		At: timestamppb.New(now), CpuSeconds: time.Duration(u.CPUNanos).Seconds(), MemoryBytes: uint64(u.MemoryBytes), DiskBytes: uint64(m.disk),
		ReceivedBytes: u.Traffic.Sent, SentBytes: u.Traffic.Received, Guest: m.guest,
	}, nil
}

// askGuest returns the guest's own figures; nil if it doesn't give any.
func (e *execution) askGuest(ctx context.Context) *sandboxv1.GuestUsage {
	ctx, cancel := context.WithTimeout(ctx, guestPatience)
	defer cancel()
	sessions, err := e.openSessions()
	if err != nil {
		return nil
	}
	l, err := sessions.Link(ctx)
	if err != nil {
		return nil
	}
	g := new(sandboxv1.GuestUsage)
	if err := machine.Ask(ctx, l, &guestv1.Call{Call: &guestv1.Call_Measure{Measure: &guestv1.Measure{}}}, g); err != nil {
		return nil
	}
	return checkGuestUsage(g)
}

// The limits of what a guest may say of itself.
const (
	maxBytes     = 1 << 50
	maxProcesses = 1 << 22
	maxLoad      = 1 << 22
)

// checkGuestUsage returns figures that can be passed on; nil for ones that can't be true.
func checkGuestUsage(g *sandboxv1.GuestUsage) *sandboxv1.GuestUsage {
	if g.GetMemoryTotalBytes() > maxBytes || g.GetMemoryUsedBytes() > g.GetMemoryTotalBytes() || g.GetDiskTotalBytes() > maxBytes ||
		g.GetDiskUsedBytes() > g.GetDiskTotalBytes() || g.GetProcesses() > maxProcesses || math.IsNaN(g.GetLoad()) || g.GetLoad() < 0 || g.GetLoad() > maxLoad {
		return nil
	}
	return &sandboxv1.GuestUsage{
		MemoryTotalBytes: g.GetMemoryTotalBytes(), MemoryUsedBytes: g.GetMemoryUsedBytes(), DiskTotalBytes: g.GetDiskTotalBytes(),
		DiskUsedBytes: g.GetDiskUsedBytes(), Processes: g.GetProcesses(), Load: g.GetLoad(),
	}
}
