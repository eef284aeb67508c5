package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/vmm"
)

// takeTimeout bounds what is done to a machine for a snapshot; what is done to its files afterwards has the time that they may take, see sealTime.
const takeTimeout = 2 * time.Minute

// sealTime is how long the files of a snapshot may take to be durable: all that a machine of a size can have changed.
func sealTime(s rootfs.Size) time.Duration { return snapshot.ReadTime(s.MemoryBytes + s.DiskBytes) }

var errSealTimeout = space.Errorf(space.CodeTimeout, "the snapshot's files weren't durable in time: the node's disk is overloaded, or broken")

// TakeSnapshot begins a snapshot of an execution and returns at once; the store's reports tell how it goes. Of one that is there, being made or failed, nothing
// is done. The execution goes on in the state that it's in: running, paused, or, for its disk alone, stopped.
func (t *Table) TakeSnapshot(ctx context.Context, r space.Route, id string, kind snapshot.Kind) error {
	e, err := t.standing(ctx, r)
	if err != nil {
		return err
	}
	if err := e.checkTake(kind); err != nil {
		return err
	}
	if err := e.cfg.Room(); err != nil {
		return err
	}
	b, err := e.beginSnapshot(id, kind)
	if b == nil {
		return err
	}
	return e.tellMaker(b, func(ctx context.Context) error { return e.capture(ctx, b) })
}

// checkTake says why there's nothing to take a snapshot of.
func (e *execution) checkTake(kind snapshot.Kind) error {
	switch s := e.report().State; {
	case s == space.ExecutionRunning, s == space.ExecutionPaused, s == space.ExecutionStopped && kind == snapshot.Disk:
		return nil
	case s == space.ExecutionStopped:
		return space.Errorf(space.CodeConflict, "execution %s is stopped: it has no memory, only a disk", e.route.Execution)
	default:
		return e.errNoMachine()
	}
}

func (e *execution) beginSnapshot(id string, kind snapshot.Kind) (*snapshot.Building, error) {
	r := e.recorded()
	return e.cfg.Snapshots.Begin(snapshot.Order{Snapshot: id, Kind: kind, Route: e.route, Template: r.Template, Size: r.Size})
}

// tellMaker has the owner make a snapshot. One that it doesn't come to is given up.
func (e *execution) tellMaker(b *snapshot.Building, do func(ctx context.Context) error) error {
	err := e.tell(command{
		do:     func(ctx context.Context) { e.giveUp(b, do(ctx)) },
		refuse: func(why error) { e.giveUp(b, why) },
	})
	if err != nil {
		b.Abandon()
	}
	return err
}

// giveUp ends the making of a snapshot that failed. When the daemon stops, nothing has failed: who ordered it orders it again.
func (e *execution) giveUp(b *snapshot.Building, err error) {
	switch {
	case err == nil:
	case e.table.ctx.Err() != nil:
		b.Abandon()
	case isSignalled(e.stopping) || isSignalled(e.removal):
		b.Fail(e.errEnding())
	case errors.Is(err, vmm.ErrGone):
		b.Fail(space.Errorf(space.CodeExecutionLost, "the sandbox's machine ended before the snapshot was taken"))
	default:
		e.log.Error("a snapshot could not be made", "snapshot", b.Snapshot(), "err", err)
		b.Fail(err)
	}
}

// capture takes a snapshot of an execution that goes on. Its files are sealed afterwards, beside the execution.
func (e *execution) capture(ctx context.Context, b *snapshot.Building) error {
	if isSignalled(e.stopping) && e.report().State != space.ExecutionStopped || isSignalled(e.removal) {
		return e.errEnding()
	}
	if err := e.checkTake(b.Kind()); err != nil {
		return err
	}
	if err := b.Make(); err != nil {
		return err
	}
	var p picture
	var err error
	if b.Kind() == snapshot.Full {
		p, err = e.fullPicture(ctx, b, true)
	} else {
		p.Machine, err = e.diskPicture(ctx, b)
	}
	if err != nil {
		return e.orGone(ctx, err)
	}
	e.table.owners.Go(func() { e.giveUp(b, e.publish(e.table.ctx, b, p)) })
	return nil
}

// orGone is why no picture could be taken: vmm.ErrGone if the machine has ended, whatever that broke first.
func (e *execution) orGone(ctx context.Context, err error) error {
	if errors.Is(err, vmm.ErrGone) || ctx.Err() != nil || e.machine == nil || !machine.DiesNow(e.machine) {
		return err
	}
	return fmt.Errorf("%w: %w", vmm.ErrGone, err)
}

// picture is a snapshot whose files are there.
type picture struct {
	snapshot.Machine
	laps   *laps      // of a full one: what was done while the sandbox stood still
	finish vmm.Finish // nil for none; else the memory is whole when it has returned, and it must be called
}

// publish makes a picture durable, in its time.
func (e *execution) publish(ctx context.Context, b *snapshot.Building, p picture) error {
	sealed := startLaps()
	b.Lap = sealed.lap
	ctx, cancel := context.WithTimeoutCause(ctx, e.table.sealTime(e.recorded().Size), errSealTimeout)
	defer cancel()
	var err error
	if p.finish != nil {
		b.Written, err = p.finish(ctx)
		sealed.lap("memory")
	}
	if err == nil {
		err = b.Publish(ctx, p.Machine)
	}
	if err != nil && errors.Is(context.Cause(ctx), errSealTimeout) {
		return fmt.Errorf("%w: %w", errSealTimeout, err)
	}
	if err != nil {
		return err
	}
	e.log.LogAttrs(ctx, slog.LevelInfo, "snapshot taken", slog.String("snapshot", b.Snapshot()), slog.String("kind", string(b.Kind())),
		slog.Duration("pause", p.Pause), p.laps.attrs(), sealed.named("sealed"))
	return nil
}

// diskPicture copies the disk. A guest that runs writes its files out before and lets none of its processes write meanwhile; its machine runs on.
func (e *execution) diskPicture(ctx context.Context, b *snapshot.Building) (snapshot.Machine, error) {
	m := e.lineage()
	if e.report().State != space.ExecutionRunning {
		m.At = time.Now().UTC()
		return m, e.cfg.Clone(e.file(diskName), b.File(snapshot.DiskName), 0)
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	if err := e.prepare(ctx); err != nil {
		return m, err
	}
	began := time.Now()
	defer e.goOn(ctx)
	if err := e.comeToRest(ctx, quiesceTimeout, machine.Quiesce); errors.Is(err, machine.ErrUnwritten) {
		return m, errDiskAlone(err)
	} else if err != nil {
		return m, err
	}
	m.At = time.Now().UTC()
	if err := e.cfg.Clone(e.file(diskName), b.File(snapshot.DiskName), 0); err != nil {
		return m, err
	}
	e.goOn(ctx)
	m.Pause = time.Since(began)
	return m, nil
}

// errDiskAlone is why there's no snapshot of a disk that doesn't take what its guest wrote.
func errDiskAlone(err error) error {
	return space.Errorf(space.CodeGuest, "the sandbox's disk didn't take all that was written in it, which happens when its node's volume is full: a snapshot of the disk alone would lack files. "+
		"Take a full one, or suspend the sandbox, which keep its memory; or stop and start it, and it goes on with what is on the disk: %w", err)
}

// fullPicture saves the machine. Unless it's to go on it stands still when fullPicture returns, with the guest at rest. A machine of which no picture could be
// taken is in the state in which it was.
func (e *execution) fullPicture(ctx context.Context, b *snapshot.Building, goOn bool) (p picture, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	laps := startLaps()
	to, err := e.openFiles(ctx, b)
	if err != nil {
		return p, err
	}
	defer to.State.Close()
	defer func() {
		if err != nil {
			to.Memory.Close()
		}
	}()
	laps.lap("open")
	if goOn { // else nobody waits for it
		if err := e.prepare(ctx); err != nil {
			return p, err
		}
		laps.lap("prepare")
	}
	began, before := time.Now(), e.report().State
	if err := e.standStill(ctx, goOn, laps); err != nil {
		e.backTo(ctx, before)
		return p, err
	}
	if p, err = e.save(ctx, b, to, laps); err != nil {
		e.backTo(ctx, before)
		return p, err
	}
	if goOn {
		e.backTo(ctx, before)
		laps.lap("go_on")
	}
	p.laps = laps
	if goOn && before == space.ExecutionRunning {
		p.Pause = time.Since(began)
	}
	finish := p.finish
	p.finish = func(ctx context.Context) (seal.Content, error) {
		written, err := finish(ctx)
		return written, errors.Join(err, to.Memory.Close())
	}
	return p, nil
}

// openFiles makes the files that the machine is saved into. The memory begins as a copy of that of the newest snapshot of this execution, or of what the machine was
// loaded from, if it was.
func (e *execution) openFiles(ctx context.Context, b *snapshot.Building) (to vmm.Save, err error) {
	loaded := e.rec.Lineage.Loaded
	earlier, from, give := b.Earlier(ctx, !loaded)
	to.Name, to.Earlier = b.Snapshot(), earlier
	if give != nil {
		defer give()
	} else if loaded {
		from = e.file(memoryName)
	}
	if from != "" {
		if err := e.cfg.Clone(from, b.File(snapshot.MemoryName), 0); err != nil {
			return to, err
		}
	}
	if to.Memory, err = os.OpenFile(b.File(snapshot.MemoryName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return to, err
	}
	if to.State, err = os.OpenFile(b.File(snapshot.StateName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return to, errors.Join(err, to.Memory.Close())
	}
	return to, nil
}

// prepare has as little as possible left to be written when the machine stands still, by the guest, and by the copies of the disk and of sessions' output, which
// write out what the host has of them.
func (e *execution) prepare(ctx context.Context) error {
	if e.report().State != space.ExecutionRunning {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quiesceTimeout)
	defer cancel()
	if err := e.reachGuest(ctx); err != nil {
		return err
	}
	if err := machine.WriteOut(ctx, e.link); err != nil {
		return space.Errorf(space.CodeGuest, "the sandbox's guest doesn't write out its files: %w", err)
	}
	return errors.Join(e.syncFile(), e.sessions.WriteOut())
}

// standStill brings the guest to rest and stops the machine. One that is paused already, with its guest at rest, is left so; of another one that is paused the
// guest runs for the moment that takes. What goes on at once needn't have everything written: memory and disk are of one moment.
func (e *execution) standStill(ctx context.Context, goOn bool, laps *laps) error {
	if e.report().State == space.ExecutionPaused && e.rec.Quiet {
		return nil
	}
	how := e.quiesceAsFarAsPossible
	if goOn {
		how = machine.Freeze
	}
	if err := e.comeToRest(ctx, quiesceTimeout, how); err != nil {
		return err
	}
	laps.lap("rest")
	e.unlink()
	err := e.machine.Pause(ctx)
	laps.lap("stop")
	return err
}

// save writes device state, memory, disk and sessions of a machine that stands still.
func (e *execution) save(ctx context.Context, b *snapshot.Building, to vmm.Save, laps *laps) (picture, error) {
	p := picture{Machine: e.lineage()}
	p.At = time.Now().UTC()
	n, err := e.sessions.Save(b.File(snapshot.SessionsName))
	if err != nil {
		return p, err
	}
	laps.lap("sessions")
	if err := e.cfg.Clone(e.file(diskName), b.File(snapshot.DiskName), 0); err != nil {
		return p, err
	}
	laps.lap("disk")
	m, finish, err := e.machine.Save(ctx, to)
	if err != nil {
		return p, err
	}
	laps.lap("machine")
	p.Sessions, p.VMM, p.Whole, p.finish = n, &m, !e.rec.Lineage.Loaded, finish
	return p, nil
}

// backTo brings the machine back to the state that the execution is in. A machine that can't be paused again is gone, above all.
func (e *execution) backTo(ctx context.Context, s space.ExecutionState) {
	if s == space.ExecutionRunning {
		e.goOn(ctx)
		return
	}
	e.unlink()
	if err := e.pauseNow(context.WithoutCancel(ctx)); err != nil {
		e.log.Error("a machine that is to be paused runs", "err", err)
	}
}

// comeToRest has the guest's processes stand still, in one of the ways that package machine has.
func (e *execution) comeToRest(ctx context.Context, limit time.Duration, how func(context.Context, *link.Link) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := e.reachGuest(ctx); err != nil {
		return err
	}
	if err := how(ctx, e.link); err != nil {
		return space.Errorf(space.CodeGuest, "the sandbox's guest doesn't come to rest: %w", err)
	}
	return nil
}

// quiesceAsFarAsPossible is machine.Quiesce for a snapshot that has the memory: what the disk doesn't take is in there.
func (e *execution) quiesceAsFarAsPossible(ctx context.Context, l *link.Link) error {
	err := machine.Quiesce(ctx, l)
	if errors.Is(err, machine.ErrUnwritten) {
		e.log.Warn("a sandbox's disk didn't take all that was written in it: its snapshot has that in the memory alone", "err", err)
		return nil
	}
	return err
}

// lineage is what the manifest says of where the machine comes from.
func (e *execution) lineage() snapshot.Machine {
	l := e.rec.Lineage
	return snapshot.Machine{Parent: l.Parent, ParentDigest: l.ParentDigest, TemplateDigest: l.TemplateDigest, Kernel: l.Kernel}
}
