package execution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/peer"
)

// freeTimeout is how long one try to free what an execution holds may take: a killed process gets ten seconds.
const freeTimeout = 30 * time.Second

// finishEnding frees what an execution holds that has ended, until that's done or ctx ends.
func (e *execution) finishEnding(ctx context.Context) {
	if err := e.readEnded(); err != nil {
		e.log.Error("can't read the sessions of an ended execution", "err", err)
	}
	signal(e.attached)
	if !e.insist(ctx, "free what an ended execution holds", e.free) {
		return
	}
	e.unpromise()
	if !e.insist(ctx, "write out an ended execution's disk", e.syncDisk) {
		return
	}
	signal(e.freed)
}

// readEnded makes the output of an execution that has run readable again after a restart.
func (e *execution) readEnded() error {
	if s := e.report().State; s != space.ExecutionLost && s != space.ExecutionStopped && s != space.ExecutionSuspended {
		return nil
	}
	return e.loadSessions()
}

// demolish removes the execution with all that it has, until nothing is left or ctx ends.
func (e *execution) demolish(ctx context.Context) {
	if _, err := os.Lstat(e.dir); err == nil {
		e.insist(ctx, "note that an execution is to be removed", func(context.Context) error {
			return e.condemn()
		})
	}
	if e.sessions != nil {
		e.sessions.End(space.Errorf(space.CodeExecutionLost, "the sandbox's machine was removed"))
	}
	if e.insist(ctx, "free what a removed execution holds", e.free) {
		e.unpromise()
	}
	e.letGo()
	e.insist(ctx, "remove the files of an execution", e.erase)
	if ctx.Err() != nil {
		return
	}
	if e.rec.UID != 0 { // it stayed on file, and with the file it's free
		e.cfg.UIDs.Give(e.rec.UID)
	}
	e.table.mu.Lock()
	e.table.forget(e.route.Execution)
	e.table.mu.Unlock()
	close(e.gone)
	e.cfg.Changed()
}

// condemn notes that the execution is to be removed. Where the disk has no room for a note it's removed all the same, since that is what
// makes room: after a crash the removal is ordered again.
func (e *execution) condemn() error {
	err := e.change(func(r *record) { r.Removing = true })
	if !peer.NoRoom(err) {
		return err
	}
	e.log.Warn("no room to note that an execution is to be removed", "err", err)
	e.mu.Lock()
	e.rec.Removing = true
	e.mu.Unlock()
	return nil
}

// insist repeats a step with back-off until it succeeds, or ctx ends and it returns false.
func (e *execution) insist(ctx context.Context, what string, step func(context.Context) error) bool {
	for backOff := firstBackOff; ctx.Err() == nil; backOff = min(2*backOff, longestBackOff) {
		try, cancel := context.WithTimeout(ctx, freeTimeout)
		err := step(try)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		e.log.Error("will try again: "+what, "err", err)
		pause(ctx, backOff)
	}
	return false
}

// free ends the machine and gives back all that it held: process, enclosure, memory and uid. The disk of an execution that ran stays, and
// belongs to root then. It may be called in any state.
func (e *execution) free(ctx context.Context) error {
	if err := e.endMachine(ctx); err != nil {
		return err
	}
	place := e.place()
	if place.UID == 0 {
		return nil
	}
	if err := e.cfg.Enclosures.Remove(ctx, place); err != nil {
		return err
	}
	if err := e.freeFiles(); err != nil {
		return fmt.Errorf("free execution %s: %w", e.route.Execution, err)
	}
	err := e.change(func(r *record) { r.UID, r.Machine = 0, nil })
	if e.rec.Removing && peer.NoRoom(err) {
		return nil // the record that still has the uid goes with the rest; nobody gets the uid before
	}
	if err != nil {
		return fmt.Errorf("free execution %s: %w", e.route.Execution, err)
	}
	e.cfg.UIDs.Give(place.UID)
	return nil
}

// endMachine ends the machine, if this life knows one.
func (e *execution) endMachine(ctx context.Context) error {
	if e.machine != nil {
		if err := e.machine.Kill(ctx); err != nil {
			return err
		}
		e.machine.Close()
		e.machine = nil
	}
	if e.link != nil { // after the kill: a link waits for a guest that takes nothing
		e.link.Close()
		e.link = nil
	}
	return nil
}

func (e *execution) freeFiles() error {
	useless := []string{memoryName}
	if s := e.rec.State; s == space.ExecutionPending || s == space.ExecutionFailed {
		useless = append(useless, diskName)
		if err := e.dropSessions(); err != nil {
			return err
		}
	}
	for _, name := range useless {
		if err := os.RemoveAll(e.file(name)); err != nil {
			return err
		}
	}
	if e.rec.Removing { // the disk goes next, and a full disk may have no room even for its owner's change
		return nil
	}
	if err := os.Chown(e.file(diskName), 0, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dropSessions drops a snapshot's, that nobody has seen.
func (e *execution) dropSessions() error {
	kept, err := e.kept.open()
	if err != nil {
		return err
	}
	return kept.Drop(e.route.Execution)
}

// erase removes the directory, the record last: what is left of it is found by it. A disk that is being cloned is waited for.
func (e *execution) erase(context.Context) error {
	e.lent.Lock()
	defer e.lent.Unlock()
	e.release()
	if err := e.table.removeReleased(e.route.Sandbox, e.kept); err != nil {
		return fmt.Errorf("erase execution %s: %w", e.route.Execution, err)
	}
	for _, name := range []string{diskName, memoryName} {
		if err := os.RemoveAll(e.file(name)); err != nil {
			return fmt.Errorf("erase execution %s: %w", e.route.Execution, err)
		}
	}
	if err := os.RemoveAll(e.dir); err != nil {
		return fmt.Errorf("erase execution %s: %w", e.route.Execution, err)
	}
	return nil
}
