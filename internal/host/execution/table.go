package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/proc"
	"github.com/space-platform/space/internal/telemetry"
)

// The limits of a table.
const (
	maxExecutions = 1000             // on one node, lost and failed ones too
	maxRemoved    = 10_000           // executions remembered after their removal, so that a late order doesn't make them again
	reattachLimit = 15 * time.Second // for all executions together, when a daemon starts; slower ones go on in the background
)

// Table holds the executions of this node.
type Table struct {
	cfg    Config
	ctx    context.Context // ends when the daemon stops
	cancel context.CancelFunc
	owners sync.WaitGroup

	measuring chan struct{} // held by those who measure
	sealTime  func(rootfs.Size) time.Duration
	pool      *pool

	mu      sync.Mutex // guards what follows
	execs   map[string]*execution
	kept    map[string]*keptSessions // by sandbox
	removed []string                 // ids, oldest first
	closed  bool
}

// Order is what Ensure is asked for. A zero size is the template's, or that of the execution whose disk is used.
type Order struct {
	Route    space.Route
	Template string
	Size     rootfs.Size
	DiskOf   string // an execution of the same sandbox that has ended: the machine boots from a copy of its disk; "" for none
	// Snapshot is one of this sandbox or another that the machine is loaded from, or boots from if it has no memory or Cold says so; "" for none. Nothing starts
	// unless it has the digest.
	Snapshot       string
	SnapshotDigest string
	Cold           bool
	// Admit is asked before the execution is begun: until it has answered, no report lacks what it allows. nil: it's allowed.
	Admit func() error
}

// Report is what the node observes of an execution.
type Report struct {
	Route space.Route
	State space.ExecutionState
	Since time.Time
	Err   error            // a *space.Error, with failed and lost
	Usage *sandboxv1.Usage // the newest, of one that runs; nil if there is none yet. It's not to be changed

	Snapshot string         // with suspended: that holds it
	Sessions []session.Copy // that came with the snapshot which it was loaded from; it's not to be changed
}

// Open reads what an earlier life of the daemon left and goes on with it. It returns when every machine was found again or found gone, at
// the latest after 15 seconds; the caller has removed what belongs to no record (see Known).
func Open(ctx context.Context, cfg Config) (*Table, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the executions of this node: %w", err)
	}
	records, err := readRecords(cfg.Dir)
	if err != nil {
		return nil, err
	}
	t := &Table{cfg: cfg, execs: map[string]*execution{}, kept: map[string]*keptSessions{}, measuring: make(chan struct{}, maxMeasuring), sealTime: sealTime}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.pool = newPool(t)
	for name, r := range records {
		e := t.newExecution(filepath.Join(cfg.Dir, name), r)
		e.kept, t.execs[r.Route.Execution] = t.acquire(r.Route.Sandbox), e
		if r.UID != 0 {
			cfg.UIDs.Keep(r.UID)
		}
		e.recall()
	}
	if err := errors.Join(t.sweepKept(), t.sweepTakenOver(records)); err != nil {
		return nil, err
	}
	for _, e := range t.execs {
		t.owners.Go(func() { e.own(t.ctx) })
	}
	t.awaitReattached(ctx)
	t.owners.Go(func() { t.pool.keep(t.ctx) })
	return t, nil
}

// Known returns the uids of the executions on file in dir, by the ids of their enclosures. Whatever else on this machine looks like an execution's is a
// leftover.
func Known(dir string) (map[string]int, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("read the executions of this node: %w", err)
	}
	records, err := readRecords(dir)
	if err != nil {
		return nil, err
	}
	known := map[string]int{}
	for _, r := range records {
		if r.UID != 0 {
			known[r.home()] = r.UID
		}
	}
	return known, nil
}

// RunningDriver returns the name of the driver that started the machines which run still, by the executions on file in dir; "" if none does. No other driver
// finds them again.
func RunningDriver(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("read the executions of this node: %w", err)
	}
	records, err := readRecords(dir)
	if err != nil {
		return "", err
	}
	for _, r := range records {
		if h := r.Machine; h != nil && (proc.ID{PID: h.PID, StartTime: h.StartTime, BootID: h.BootID}).Alive() {
			return h.Driver, nil
		}
	}
	return "", nil
}

func (t *Table) awaitReattached(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reattachLimit)
	defer cancel()
	for _, e := range t.execs {
		select {
		case <-e.attached:
		case <-ctx.Done():
			slog.Warn("going on without having reached every guest", "err", ctx.Err())
			return
		}
	}
}

// Ensure returns when the execution has left the state pending: its guest has acknowledged clock and seed, or it failed, or was lost. It
// makes the execution unless it's known. When ctx ends before, the work goes on.
func (t *Table) Ensure(ctx context.Context, o Order) (Report, error) {
	e, err := t.enter(o, telemetry.CauseOf(ctx))
	if err != nil {
		return Report{}, err
	}
	select {
	case <-e.settled:
		return e.report(), nil
	case <-e.gone:
		return Report{}, errRemoved(o.Route)
	case <-ctx.Done():
		return Report{}, space.Errorf(space.CodeTimeout, "execution %s isn't running yet: %w", o.Route.Execution, context.Cause(ctx))
	}
}

// enter returns the execution of an order, which it begins unless it's there.
func (t *Table) enter(o Order, cause telemetry.Cause) (*execution, error) {
	if o.Route.Placement.Node != t.cfg.Node || o.Route.Placement.Kind != space.PlacementNode {
		return nil, space.Errorf(space.CodeRouteDenied, "the order is for another node than %s", t.cfg.Node)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.execs[o.Route.Execution]; ok {
		return e, o.Route.Match(e.route)
	}
	switch {
	case t.closed:
		return nil, errStopping()
	case slices.Contains(t.removed, o.Route.Execution):
		return nil, errRemoved(o.Route)
	case len(t.execs) >= maxExecutions:
		return nil, space.Errorf(space.CodeCapacity, "the node has %d executions, which is its limit", maxExecutions)
	}
	if o.Admit != nil {
		if err := o.Admit(); err != nil {
			return nil, err
		}
	}
	r := record{
		Route: o.Route, Template: o.Template, Size: o.Size, DiskOf: o.DiskOf, Snapshot: o.Snapshot, SnapshotDigest: o.SnapshotDigest, Cold: o.Cold,
		State: space.ExecutionPending, Since: time.Now(),
	}
	e := t.newExecution(filepath.Join(t.cfg.Dir, space.HostLabel(o.Route.Execution)), r)
	e.cause = cause
	e.kept, t.execs[o.Route.Execution] = t.acquire(o.Route.Sandbox), e
	t.owners.Go(func() { e.own(t.ctx) })
	return e, nil
}

// Remove returns when nothing of the execution is left on the node. One that isn't there is removed already. When ctx ends before, the
// work goes on.
func (t *Table) Remove(ctx context.Context, r space.Route) error {
	t.mu.Lock()
	e, ok := t.execs[r.Execution]
	if !ok {
		t.forget(r.Execution)
		t.mu.Unlock()
		return nil
	}
	t.mu.Unlock()
	if err := r.Match(e.route); err != nil {
		return err
	}
	e.want(e.removal)
	select {
	case <-e.gone:
		return nil
	case <-ctx.Done():
		return space.Errorf(space.CodeTimeout, "execution %s isn't removed yet: %w", r.Execution, context.Cause(ctx))
	case <-t.ctx.Done():
		return errStopping()
	}
}

// forget notes that an execution was removed. mu is held.
func (t *Table) forget(id string) {
	delete(t.execs, id)
	t.removed = append(t.removed, id)
	if n := len(t.removed); n > maxRemoved {
		t.removed = slices.Clone(t.removed[n-maxRemoved:])
	}
}

// Reports returns what is known of all executions, in the order of their ids.
func (t *Table) Reports() []Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Report
	for _, e := range t.execs {
		out = append(out, e.report())
	}
	slices.SortFunc(out, func(a, b Report) int { return strings.Compare(a.Route.Execution, b.Route.Execution) })
	return out
}

// Largest is how much memory the largest machine has that may have to be suspended: that runs, is paused, or is being made.
func (t *Table) Largest() (bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.execs {
		bytes = max(bytes, e.mayKeep())
	}
	return bytes
}

// Close stops looking after the executions, whose machines run on. Whoever is attached must have been told before.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.owners.Wait()
	t.closeKept()
}

func errRemoved(r space.Route) error {
	return space.Errorf(space.CodeConflict, "execution %s was removed", r.Execution)
}

func errStopping() error {
	return space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
}
