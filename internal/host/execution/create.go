package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/vmm"
)

// How long all steps of a creation may take together, for a loaded machine under emulation. Bare, a load takes a tenth of a second and a
// boot some.
const (
	loadTimeout = time.Minute
	bootTimeout = 3 * time.Minute
)

// begin brings a pending execution to life. It reports whether it runs; if not, it has failed, or ctx has ended.
func (e *execution) begin(ctx context.Context) bool {
	err := e.restart(ctx)
	if err == nil {
		err = e.create(ctx)
	}
	if err == nil {
		e.announce(space.ExecutionRunning)
		e.cfg.Changed()
		return true
	}
	if ctx.Err() != nil {
		return false // the removal, or the next life, undoes it
	}
	e.log.ErrorContext(ctx, "an execution could not be created", "err", err)
	if errors.Is(err, vmm.ErrIncompatible) && e.rec.Snapshot == "" {
		e.cfg.Templates.Reject(e.rec.Template)
	}
	freeing, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
	if err := e.free(freeing); err != nil {
		e.log.ErrorContext(ctx, "what a failed creation left is still there", "err", err)
	}
	cancel()
	e.unpromise()
	e.become(space.ExecutionFailed, problemOf(err))
	e.finishEnding(ctx)
	return false
}

// restart undoes what a creation left that another life of the daemon began.
func (e *execution) restart(ctx context.Context) error {
	if _, err := os.Lstat(e.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := e.free(ctx); err != nil {
		return fmt.Errorf("undo an unfinished creation: %w", err)
	}
	return nil
}

// create does all steps.
func (e *execution) create(ctx context.Context) error {
	o, err := e.findOrigin(ctx)
	if err != nil {
		return err
	}
	defer o.give()
	e.mu.Lock()
	e.memory = o.size.MemoryBytes
	e.mu.Unlock()
	if err := e.cfg.Keep(o.size.MemoryBytes); err != nil {
		return err
	}
	if e.takeBack, err = e.promise(o.size.MemoryBytes); err != nil {
		return err
	}
	e.table.pool.arrived(e.recorded(), o.size)
	defer e.table.pool.left()
	limit := loadTimeout
	if o.snapshot == nil {
		limit = bootTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCreateTimeout)
	defer cancel()
	err = e.steps(ctx, o)
	if deadline, _ := ctx.Deadline(); err != nil && !time.Now().Before(deadline) { // the guest's last moment is the same one, and may come first
		return space.Errorf(space.CodeTimeout, "the machine wasn't ready within %s: %w", limit, err)
	}
	return err
}

var errCreateTimeout = errors.New("the creation took too long")

func (e *execution) steps(ctx context.Context, o origin) error {
	laps := startLaps()
	kept, claimed := e.claim(ctx, o, laps)
	if !claimed {
		if err := e.make(ctx, o, laps); err != nil {
			return err
		}
	}
	if err := e.beginSessions(o); err != nil {
		return err
	}
	if err := e.run(kept); err != nil {
		return err
	}
	if e.rec.Snapshot != "" && o.snapshot != nil && o.keep {
		e.takeOver()
	}
	e.sessions.Use(e.link)
	if o.snapshot == nil {
		e.afterBoot(o)
	}
	laps.lap("settle")
	e.log.LogAttrs(ctx, slog.LevelInfo, "execution created", slog.Bool("booted", o.snapshot == nil), slog.Bool("pooled", claimed), laps.attrs())
	laps.observe()
	return nil
}

// beginSessions opens the sessions, those that run in a snapshot among them.
func (e *execution) beginSessions(o origin) error {
	var err error
	switch {
	case o.snapshot == nil:
	case e.rec.Snapshot != "":
		err = e.restoreSessions(o)
	default:
		err = e.copySessions(o.snapshot.Sessions)
	}
	if err != nil {
		return err
	}
	return e.loadSessions()
}

// make makes a machine for this execution alone: another one if the first ends at its start, or its guest doesn't come up in half of the time.
func (e *execution) make(ctx context.Context, o origin, laps *laps) error {
	deadline, _ := ctx.Deadline()
	err := e.makeOne(ctx, o, time.Now().Add(time.Until(deadline)/2), laps)
	if !errors.Is(err, machine.ErrUnmet) || ctx.Err() != nil {
		return err
	}
	if err := e.free(ctx); err != nil {
		return fmt.Errorf("undo a machine that didn't come up: %w", err)
	}
	laps.lap("unmet")
	return e.makeOne(ctx, o, deadline, laps)
}

// makeOne tries it once. The guest has until a time to come up.
func (e *execution) makeOne(ctx context.Context, o origin, until time.Time, laps *laps) error {
	if err := e.reserve(o); err != nil {
		return err
	}
	laps.lap("record")
	if err := e.raise(ctx, o, e.place(), laps); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l, err := machine.Meet(ctx, e.machine, o.why(), e.identity())
	shaken(err)
	if err != nil {
		return space.Errorf(space.CodeGuest, "%w", err)
	}
	laps.lap("greet")
	e.link = l
	return nil
}

// raise makes everything that a machine needs, and starts it.
func (e *execution) raise(ctx context.Context, o origin, place jail.Spec, laps *laps) error {
	lacks, err := o.sharedLacks()
	if err != nil {
		return err
	}
	place.Limits.MemoryBytes += lacks
	shared, err := o.shared()
	if err != nil {
		return err
	}
	e.unshare()
	e.unshare = e.cfg.Promises.Hold(shared)
	var home vmm.Enclosure
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.clone(o, place.UID) })
	g.Go(func() (err error) {
		home, err = e.cfg.Enclosures.Enclose(gctx, place)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	laps.lap("clone_and_enclose")
	if err := e.startDurable(ctx, home, o); err != nil {
		return err
	}
	laps.lap("start")
	return nil
}

// startDurable starts the machine, and makes its disk durable meanwhile: a sandbox that is said to run is found again after a power loss, if only as
// its template or the disk that it was started from was. The latter is removed when this one runs: its removal may not outlive this copy.
func (e *execution) startDurable(ctx context.Context, home vmm.Enclosure, o origin) error {
	var g errgroup.Group
	g.Go(e.syncFile)
	if e.ownMemory(o) {
		g.Go(func() error {
			if err := e.readAhead(); err != nil {
				e.log.Warn("can't read a memory before it's asked for", "err", err)
			}
			return nil
		})
	}
	err := e.start(ctx, home, o) // a machine that has started is known, whatever comes of the rest
	return errors.Join(machine.Started(ctx, o.why(), err), g.Wait())
}

// reserve puts the record on file, with a uid.
func (e *execution) reserve(o origin) error {
	shared, err := o.shared()
	if err != nil {
		return err
	}
	uid, err := e.takeUID()
	if err != nil {
		return err
	}
	if err := e.change(func(r *record) { r.UID, r.Size, r.Lineage, r.Shared = uid, o.size, o.lineage, shared }); err != nil {
		e.cfg.UIDs.Give(uid)
		return fmt.Errorf("reserve execution %s: %w", e.route.Execution, err)
	}
	return nil
}

// takeUID takes a uid and makes the directory, if the node has room for another machine.
func (e *execution) takeUID() (int, error) {
	if err := e.cfg.Room(); err != nil {
		return 0, err
	}
	uid, err := e.cfg.UIDs.Take()
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(e.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		e.cfg.UIDs.Give(uid)
		return 0, fmt.Errorf("reserve execution %s: %w", e.route.Execution, err)
	}
	return uid, nil
}

// run puts on file that the execution runs, and how its machine is found again. kept has it already; nil: nothing has.
func (e *execution) run(kept *prepared) error {
	err := e.putOnFile(kept)
	if kept == nil {
		err = e.change(func(r *record) { *r = r.running(e.machine.Handle()) })
	}
	if err != nil {
		return fmt.Errorf("note that execution %s runs: %w", e.route.Execution, err)
	}
	return nil
}

// running is the record of an execution whose machine runs.
func (r record) running(h vmm.Handle) record {
	r.Machine, r.State, r.Since = &h, space.ExecutionRunning, time.Now()
	return r
}

// putOnFile puts a record on file that is on the disk; nil: there's none.
func (e *execution) putOnFile(p *prepared) error {
	if p == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := p.Publish(); err != nil {
		return err
	}
	e.rec = p.record
	return nil
}

// start starts the machine.
func (e *execution) start(ctx context.Context, home vmm.Enclosure, o origin) (err error) {
	if o.snapshot == nil {
		e.machine, err = e.boot(ctx, home)
	} else {
		e.machine, err = e.load(ctx, home, *o.snapshot)
	}
	return err
}

// boot starts the machine with today's kernel. Its memory is in no file.
func (e *execution) boot(ctx context.Context, home vmm.Enclosure) (vmm.Machine, error) {
	return e.cfg.Driver.Boot(ctx, home, vmm.Boot{
		Shape: e.shape(), Kernel: e.cfg.Kernel.For(e.shape().VCPUs), Initrd: e.cfg.Kernel.Initrd, Disk: e.file(diskName),
	})
}

// afterBoot does what a snapshot would have saved: it starts what the template has running, and asks for a snapshot for the next time.
func (e *execution) afterBoot(o origin) {
	if spec := e.cfg.Templates.Start(e.rec.Template); spec != nil {
		if err := e.sessions.Start(space.NewID(space.PrefixSession), spec); err != nil {
			e.log.Error("the template's start command could not be started", "err", err)
		}
	}
	if e.rec.DiskOf == "" && e.rec.Snapshot == "" {
		e.cfg.Templates.BuildShape(e.rec.Template, o.size)
	}
}

// load starts the machine from a snapshot.
func (e *execution) load(ctx context.Context, home vmm.Enclosure, s template.Snapshot) (vmm.Machine, error) {
	memory := e.file(memoryName) // not there if it's shared
	if e.cfg.Driver.Capabilities().SharedMemory {
		memory = s.Memory
	}
	l := vmm.Load{Shape: e.shape(), State: s.State, Memory: memory, Sealed: s.Sealed, Disk: e.file(diskName), Manifest: s.Manifest}
	if e.cfg.Paged {
		l.Pages = &vmm.Pages{WorkingSet: s.WorkingSet, Snapshot: s.Digest}
	}
	m, err := e.cfg.Driver.Load(ctx, home, l)
	if errors.Is(err, vmm.ErrIncompatible) && e.rec.Snapshot != "" {
		return nil, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s can't be loaded on this node, but its disk can be booted: %w", e.rec.Snapshot, err)
	}
	if errors.Is(err, vmm.ErrIncompatible) {
		return nil, space.Errorf(space.CodeTemplateNotReady, "the template's snapshot doesn't fit this node any more: %w", err)
	}
	return m, err
}

// greet makes a link to the guest: it has set its clock, its generator and its identity when greet returns. adopt says that it has
// another execution's identity so far.
func (e *execution) greet(ctx context.Context, adopt bool) (*link.Link, error) {
	return e.greetAt(ctx, e.machine, adopt)
}

// greetAt is greet, for a machine that isn't the execution's yet.
func (e *execution) greetAt(ctx context.Context, m vmm.Machine, adopt bool) (*link.Link, error) {
	s := e.identity()
	s.Adopt = adopt
	l, err := machine.Greet(ctx, m, s)
	shaken(err)
	return l, err
}

// identity is what the guest of a machine is told to be that was another's before.
func (e *execution) identity() link.Sync {
	return link.Sync{Execution: e.route.Execution, Epoch: e.route.Epoch, Adopt: true, Hostname: hostname(e.route.Sandbox)}
}

// hostname is the sandbox's name of itself, the same in all its executions.
func hostname(sandbox string) string {
	return string(space.PrefixSandbox) + "-" + space.HostLabel(sandbox)
}
