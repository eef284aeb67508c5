package execution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/peer"
)

// How long processes may take to end, beside the grace that they are given.
const (
	MaxGrace         = 5 * time.Minute  // that a stop can give
	terminateTimeout = 20 * time.Second // for a loaded machine under emulation, killed processes included
	settleTimeout    = 10 * time.Second // for the output of ended sessions to be kept
)

// quiesceTimeout is how long a guest may take to write out its files before its machine is ended all the same. Its disk has a journal then,
// as after a power loss.
const quiesceTimeout = 30 * time.Second

// Stop has an execution's machine ended after its processes have, which have a grace for that, and after its guest has written out its files. It
// returns when the owner knows; the reports tell when the execution is stopped: it holds nothing but its disk then, which is durable. Stopping a
// stopped one succeeds. One that is being stopped has the grace that it was given first.
func (t *Table) Stop(ctx context.Context, r space.Route, grace time.Duration) error {
	if grace < 0 || grace > MaxGrace {
		return space.FieldErrorf("grace", "%s: want 0 to %s", grace, MaxGrace)
	}
	e, err := t.standing(ctx, r)
	if err != nil {
		return err
	}
	switch s := e.report().State; s {
	case space.ExecutionRunning, space.ExecutionPaused:
		e.wantStopped(grace)
	case space.ExecutionStopped:
	default:
		return space.Errorf(space.CodeExecutionLost, "execution %s has no machine to stop: it's %s", r.Execution, s)
	}
	return nil
}

// wantStopped asks the owner to stop the execution. It may be called again.
func (e *execution) wantStopped(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !isSignalled(e.stopping) {
		e.rec.Grace = grace
	}
	signal(e.stopping)
}

// await waits for what the owner does.
func (e *execution) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-e.removal:
		return space.Errorf(space.CodeConflict, "execution %s is being removed", e.route.Execution)
	default:
	}
	select {
	case <-c:
		return nil
	case <-e.removal:
		return space.Errorf(space.CodeConflict, "execution %s is being removed", e.route.Execution)
	case <-e.table.ctx.Done():
		return errStopping()
	case <-ctx.Done():
		return space.Errorf(space.CodeTimeout, "execution %s isn't as far yet: %w", e.route.Execution, context.Cause(ctx))
	}
}

// errStopped is why no session starts any more.
func errStopped() *space.Error {
	return space.Errorf(space.CodeConflict, "the sandbox was stopped: start it first")
}

// halt stops the execution, from wherever another life of the daemon left it: the intent on file, the processes, the guest's files, the machine
// and all that it held, the disk, the state.
func (e *execution) halt(ctx context.Context) {
	if s := e.report().State; s != space.ExecutionRunning && s != space.ExecutionPaused {
		e.finishEnding(ctx)
		return
	}
	if e.rec.Suspending != "" && e.settleSuspend(ctx) {
		return
	}
	e.insist(ctx, "note that an execution is to be stopped", func(context.Context) error {
		err := e.change(func(r *record) { r.Stopping, r.Suspending = true, "" })
		if peer.NoRoom(err) {
			return nil // after a crash the stop is ordered again
		}
		return err
	})
	if err := e.terminate(ctx); err != nil && ctx.Err() == nil {
		e.log.Warn("processes are ended with their machine", "err", err)
	}
	if err := e.comeToRest(ctx, quiesceTimeout, machine.Quiesce); err != nil && ctx.Err() == nil {
		e.log.Warn("a guest is ended without having written out its files", "err", err)
	}
	if ctx.Err() != nil {
		return // the next life goes on, or the removal does
	}
	e.stopSessions()
	if !e.insist(ctx, "free what a stopped execution holds", e.free) {
		return
	}
	e.unpromise()
	if !e.insist(ctx, "write out a stopped execution's disk", e.syncDisk) {
		return
	}
	signal(e.freed)
	e.become(space.ExecutionStopped, nil)
}

// terminate lets the processes end, and keeps what they have said.
func (e *execution) terminate(ctx context.Context) error {
	if err := e.loadSessions(); err != nil {
		return err
	}
	e.sessions.Refuse(errStopped())
	e.mu.Lock()
	grace := e.rec.Grace
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, grace+terminateTimeout)
	defer cancel()
	if err := e.reachGuest(ctx); err != nil {
		return err
	}
	if err := machine.Terminate(ctx, e.link, grace); err != nil {
		return err
	}
	settled, enough := context.WithTimeout(ctx, settleTimeout)
	defer enough()
	return e.sessions.Drain(settled)
}

// reachGuest makes sure that there is a link to the guest, which the sessions use.
func (e *execution) reachGuest(ctx context.Context) error {
	if e.machine == nil {
		if err := e.recoverMachine(ctx); err != nil {
			return err
		}
	}
	if e.link == nil || isSignalled(e.link.Done()) {
		if err := e.machine.Resume(ctx); err != nil { // it may stand still, for a life that has died
			return err
		}
		l, err := e.greet(ctx, false)
		if err != nil {
			return err
		}
		if e.link != nil {
			e.link.Close()
		}
		e.link = l
		e.sessions.Use(l)
	}
	return nil
}

// stopSessions ends all sessions; their output stays readable.
func (e *execution) stopSessions() {
	if err := e.loadSessions(); err != nil {
		e.log.Error("can't read the sessions of an execution", "err", err)
		return
	}
	e.sessions.End(errStopped())
}

// syncDisk makes the disk durable, if there is one, and the sessions.
func (e *execution) syncDisk(ctx context.Context) error {
	if err := e.kept.sync(ctx, e.route.Execution); err != nil {
		return err
	}
	return e.syncFile()
}

// syncFile makes the disk durable, if there is one.
func (e *execution) syncFile() error {
	f, err := os.OpenFile(e.file(diskName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write out %s: %w", f.Name(), err)
	}
	return durable.SyncDir(e.dir)
}
