package execution

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/telemetry"
)

// execution is one execution and its owner.
type execution struct {
	cfg   *Config
	table *Table
	route space.Route
	dir   string        // changes once, before it runs, when it gets a slot's
	kept  *keptSessions // of its sandbox; a slot has none
	log   *slog.Logger
	cause telemetry.Cause // what asked for it; none of one that an earlier life of the daemon began

	removal  chan struct{} // closed when Remove was called
	stopping chan struct{} // closed when Stop was called
	settled  chan struct{} // closed when the state isn't pending any more
	ended    chan struct{} // closed when the state is stopped, lost or failed: final
	freed    chan struct{} // closed when an ended one holds nothing but its disk
	attached chan struct{} // closed when the machine was found again, or found gone
	gone     chan struct{} // closed when nothing is left

	commands chan command  // for the owner
	lent     sync.RWMutex  // held for reading by those who clone the disk
	calls    chan struct{} // held by those who call the guest

	// owned by own's goroutine
	machine  vmm.Machine // nil while there is none
	link     *link.Link  // nil while there is none
	released bool        // see release
	takeBack func()      // takes back the memory that its machine was promised
	unshare  func()      // and its part in what machines share

	mu       sync.Mutex // guards what follows
	rec      record
	memory   int64 // of the machine, once it's known how much it's to have
	meter    meter
	sessions *session.Set // nil until the execution has run
	deaf     error        // why the owner takes no command any more; nil: it does
}

// newExecution returns an execution that has no owner yet.
func (t *Table) newExecution(dir string, r record) *execution {
	e := &execution{
		cfg: &t.cfg, table: t, route: r.Route, dir: dir, rec: r,
		log: slog.With("execution", r.Route.Execution, "sandbox", r.Route.Sandbox), takeBack: func() {}, unshare: func() {},
		removal: make(chan struct{}), stopping: make(chan struct{}), settled: make(chan struct{}), ended: make(chan struct{}),
		meter: meter{turn: make(chan struct{}, 1)}, calls: make(chan struct{}, maxCalls), commands: make(chan command, maxCommands), freed: make(chan struct{}), attached: make(chan struct{}), gone: make(chan struct{}),
	}
	e.announce(r.State)
	if r.Stopping {
		close(e.stopping)
	}
	if r.Removing {
		close(e.removal)
	}
	return e
}

// announce tells those who wait for it that the state is reached.
func (e *execution) announce(s space.ExecutionState) {
	if s != space.ExecutionPending {
		signal(e.settled)
	}
	if s != space.ExecutionPending && s != space.ExecutionRunning && s != space.ExecutionPaused {
		signal(e.ended)
	}
}

// own is the owner: it brings the execution to life, watches it, does what it's told, and stops and removes it when that's wanted.
func (e *execution) own(ctx context.Context) {
	defer e.letGo()
	e.until(ctx, e.live, e.stopping, e.removal)
	signal(e.attached)
	e.until(ctx, e.obey, e.stopping, e.removal)
	if isSignalled(e.stopping) {
		e.until(ctx, e.halt, e.removal)
		e.until(ctx, e.obey, e.removal)
	}
	if ctx.Err() != nil {
		e.hangUp(errStopping())
		return
	}
	e.hangUp(e.errEnding())
	e.demolish(ctx)
}

// until calls f with a context that ends when one of the channels is closed.
func (e *execution) until(ctx context.Context, f func(context.Context), wanted ...chan struct{}) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	for _, c := range wanted {
		watch.Go(func() {
			select {
			case <-c:
				cancel(errEndWanted)
			case <-ctx.Done():
			}
		})
	}
	f(ctx)
}

var errEndWanted = errors.New("the execution is to be stopped or removed")

// live goes on from whatever state the record has, until the execution has ended or ctx has.
func (e *execution) live(ctx context.Context) {
	if isSignalled(e.removal) || isSignalled(e.stopping) {
		return
	}
	switch e.report().State {
	case space.ExecutionPending:
		if !e.begin(e.cause.In(ctx)) {
			return
		}
	case space.ExecutionRunning, space.ExecutionPaused:
		if e.rec.Suspending != "" && e.settleSuspend(ctx) || !e.reattach(ctx) {
			return
		}
	default:
		e.finishEnding(ctx)
		return
	}
	signal(e.attached)
	e.watch(ctx)
}

// want asks the owner to stop or remove the execution, by the channel for it. It may be called again.
func (e *execution) want(c chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	signal(c)
}

func (e *execution) report() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Report{Route: e.route, State: e.rec.State, Since: e.rec.Since, Err: e.rec.Error.err(), Snapshot: e.rec.Suspended, Sessions: e.rec.Sessions}
	if r.State == space.ExecutionRunning {
		r.Usage = e.meter.last
	}
	return r
}

// mayKeep is how much memory a suspend may have to keep.
func (e *execution) mayKeep() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.rec.State {
	case space.ExecutionPending, space.ExecutionRunning, space.ExecutionPaused:
		return max(e.memory, e.rec.Size.MemoryBytes)
	default:
		return 0
	}
}

// place is where the execution's machine runs.
func (e *execution) place() jail.Spec {
	return machine.Enclosure(e.rec.home(), e.rec.UID, e.shape())
}

func (e *execution) shape() vmm.Shape {
	return vmm.Shape{VCPUs: e.rec.Size.VCPUs, MemoryBytes: e.rec.Size.MemoryBytes}
}

func (e *execution) file(name string) string { return filepath.Join(e.dir, name) }

// change changes the record on file and in memory.
func (e *execution) change(f func(r *record)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rec
	f(&r)
	if err := r.write(e.dir); err != nil {
		return err
	}
	e.rec = r
	return nil
}

// become changes the state. What has happened has happened, so the state holds even if it can't be written.
func (e *execution) become(s space.ExecutionState, why *problem) {
	e.mu.Lock()
	e.rec.State, e.rec.Since, e.rec.Error, e.rec.Stopping = s, time.Now(), why, false
	err := os.MkdirAll(e.dir, 0o700) // it may have failed before anything was reserved
	if err == nil {
		err = e.rec.write(e.dir)
	}
	e.mu.Unlock()
	if err != nil {
		e.log.Error("can't write down an execution's state", "state", s, "err", err)
	}
	e.announce(s)
	e.cfg.Changed()
}

// openSessions returns the sessions of an execution that runs or has run.
func (e *execution) openSessions() (*session.Set, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.sessions != nil:
		return e.sessions, nil
	case e.rec.State == space.ExecutionPending:
		return nil, space.Errorf(space.CodeUnavailable, "execution %s isn't running yet", e.route.Execution)
	default:
		return nil, space.Errorf(space.CodeExecutionLost, "execution %s doesn't run any more", e.route.Execution)
	}
}

// loadSessions opens the sessions, once. Those of an execution that has ended have ended before anybody can attach.
func (e *execution) loadSessions() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions != nil {
		return nil
	}
	kept, err := e.kept.open()
	if err != nil {
		return err
	}
	s, err := kept.Set(e.route.Execution)
	if err != nil {
		return err
	}
	switch {
	case e.rec.State == space.ExecutionLost && e.rec.Error != nil:
		s.End(e.rec.Error.space())
	case e.rec.State == space.ExecutionStopped:
		s.End(errStopped())
	case e.rec.State == space.ExecutionPaused:
		s.Refuse(errPaused())
	case e.rec.State == space.ExecutionSuspended:
		s.Suspend(errSuspended())
	}
	e.sessions = s
	return nil
}

// letGo closes what this process has open; the machine runs on if there is one. What sessions left behind stays open as long as their sandbox
// has an execution here.
func (e *execution) letGo() {
	if e.link != nil {
		e.link.Close()
	}
	if e.machine != nil {
		e.machine.Close()
	}
	e.mu.Lock()
	s := e.sessions
	e.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// signal closes a channel that one goroutine at a time may close.
func signal(c chan struct{}) {
	if !isSignalled(c) {
		close(c)
	}
}

func isSignalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
