package execution

import (
	"context"
	"log/slog"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/snapshot"
)

// Suspend has a full snapshot taken of an execution that runs or is paused, and its machine ended once that is durable. It returns when the owner knows; the
// reports tell when the execution is suspended: it holds nothing then, and the snapshot is all that there is. If it can't be done the execution goes on as
// before, and the snapshot has failed. Suspending one that is suspended into that snapshot succeeds.
func (t *Table) Suspend(ctx context.Context, r space.Route, id string) error {
	e, err := t.standing(ctx, r)
	if err != nil {
		return err
	}
	now := e.report()
	switch s := now.State; {
	case s == space.ExecutionSuspended && now.Snapshot == id:
		return nil
	case s != space.ExecutionRunning && s != space.ExecutionPaused:
		return e.errNoMachine()
	case isSignalled(e.stopping):
		return e.errEnding()
	}
	b, err := e.beginSnapshot(id, snapshot.Full)
	if b == nil {
		return err
	}
	return e.tellMaker(b, func(ctx context.Context) error { return e.suspend(ctx, b) })
}

// suspend does all steps: the intent on file, the picture, the snapshot durable and with its name, and then whatever is left is freed, with the state on file
// last. Until the snapshot has its name the execution goes on after a crash, from then on it's suspended.
func (e *execution) suspend(ctx context.Context, b *snapshot.Building) error {
	before := e.report().State
	if isSignalled(e.stopping) || isSignalled(e.removal) || before != space.ExecutionRunning && before != space.ExecutionPaused {
		return e.errEnding()
	}
	defer e.cfg.Reserve(e.rec.Size.MemoryBytes)() // kept anew when what the machine had on the volume is free
	if err := e.change(func(r *record) { r.Suspending = b.Snapshot() }); err != nil {
		return err
	}
	if err := e.preserve(ctx, b, before); err != nil {
		if cerr := e.change(func(r *record) { r.Suspending = "" }); cerr != nil { // the next life finds no such snapshot
			e.log.Warn("can't note that an execution isn't suspended", "err", cerr)
		}
		return err
	}
	e.finishSuspend(ctx)
	return nil
}

// preserve takes the picture and makes it durable, while the machine stands still.
func (e *execution) preserve(ctx context.Context, b *snapshot.Building, before space.ExecutionState) error {
	if err := b.Make(); err != nil {
		return err
	}
	p, err := e.fullPicture(ctx, b, false)
	if err != nil {
		return e.orGone(ctx, err)
	}
	if err := e.publish(ctx, b, p); err != nil {
		e.backTo(ctx, before)
		return err
	}
	return nil
}

// finishSuspend ends the machine of an execution whose snapshot is durable, puts on file that it's suspended, and frees the rest of what it holds. It may be repeated.
func (e *execution) finishSuspend(ctx context.Context) {
	if err := e.loadSessions(); err != nil {
		e.log.Error("can't read the sessions of an execution", "err", err)
	} else {
		e.sessions.Suspend(errSuspended())
	}
	laps := startLaps()
	for _, step := range []struct {
		lap, what string
		do        func(context.Context) error
	}{
		{"machine", "end the machine of a suspended execution", func(ctx context.Context) error {
			err := e.endOrFree(ctx)
			if err == nil {
				e.unpromise()
			}
			return err
		}},
		{"sessions", "write out a suspended execution's sessions", func(ctx context.Context) error { return e.kept.sync(ctx, e.route.Execution) }},
		{"files", "remove the files of a suspended execution", func(context.Context) error { return e.removeFiles() }},
		{"record", "note that an execution is suspended", func(context.Context) error {
			return e.change(func(r *record) {
				r.State, r.Since, r.Suspended, r.Suspending, r.Quiet, r.Machine = space.ExecutionSuspended, time.Now(), r.Suspending, "", false, nil
			})
		}},
	} {
		if !e.insist(ctx, step.what, step.do) {
			return // the next life goes on, or the removal does
		}
		laps.lap(step.lap)
	}
	e.announce(space.ExecutionSuspended)
	e.cfg.Changed()
	if !e.insist(ctx, "free what a suspended execution holds", e.free) {
		return // the next life does, or the removal
	}
	laps.lap("free")
	signal(e.freed)
	e.log.LogAttrs(ctx, slog.LevelInfo, "execution suspended", laps.attrs())
}

// settleSuspend decides a suspend that another life began: it's done if the snapshot has its name, and never was otherwise. It reports whether the
// execution is suspended.
func (e *execution) settleSuspend(ctx context.Context) bool {
	if r, ok := e.cfg.Snapshots.Find(e.rec.Suspending); ok && r.State == snapshot.Ready {
		signal(e.attached)
		e.finishSuspend(ctx)
		return true
	}
	if err := e.change(func(r *record) { r.Suspending = "" }); err != nil {
		e.log.Warn("can't note that an execution isn't suspended", "err", err)
	}
	return false
}

// endOrFree ends the machine. One that another life knew ends with its enclosure.
func (e *execution) endOrFree(ctx context.Context) error {
	if e.machine == nil {
		return e.free(ctx)
	}
	return e.endMachine(ctx)
}

// removeFiles removes the disk and the memory, which are in the snapshot. Whoever clones the disk is waited for.
func (e *execution) removeFiles() error {
	e.lent.Lock()
	defer e.lent.Unlock()
	for _, name := range []string{diskName, memoryName} {
		if err := os.RemoveAll(e.file(name)); err != nil {
			return err
		}
	}
	return nil
}

// errSuspended is why no session starts any more.
func errSuspended() *space.Error {
	return space.Errorf(space.CodeConflict, "the sandbox is suspended: restore it first")
}
