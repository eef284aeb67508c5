package execution

import (
	"context"
	"errors"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

// How a guest is reached again.
const (
	greetTimeout   = 20 * time.Second // for one try
	firstBackOff   = 50 * time.Millisecond
	longestBackOff = 5 * time.Second
	steadyLink     = 10 * time.Second // so long a link was up, and the next one is tried at once: who breaks each new one is met no more often than who doesn't answer
)

// watch keeps the link up until the machine is gone or ctx ends, and measures it.
func (e *execution) watch(ctx context.Context) {
	e.keepLinked(ctx)
	if ctx.Err() != nil || isSignalled(e.ended) { // it was suspended
		return
	}
	if machine.Gone(e.machine) {
		e.lose(ctx, whyGone(e.machine.Err(), "the sandbox's machine ended unexpectedly"))
	}
}

func (e *execution) keepLinked(ctx context.Context) {
	measuring, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { e.measureAlways(measuring) })
	backOff, retry, linked := firstBackOff, time.NewTimer(0), time.Now()
	defer retry.Stop()
	for {
		var broken <-chan struct{} // nil while there's no link
		if e.link != nil {
			broken = e.link.Done()
		}
		select {
		case <-e.machine.Done():
			return
		case <-ctx.Done():
			return
		case <-broken:
			e.log.Warn("the link to the guest broke", "err", e.link.Err())
			e.unlink()
			if time.Since(linked) >= steadyLink {
				backOff = firstBackOff
				retry.Reset(0)
				continue
			}
			retry.Reset(backOff)
			backOff = min(2*backOff, longestBackOff)
		case <-retry.C:
			if e.relink(ctx) {
				linked = time.Now()
				continue
			}
			retry.Reset(backOff)
			backOff = min(2*backOff, longestBackOff)
		case c := <-e.commands:
			e.heed(ctx, c)
			if ctx.Err() != nil || isSignalled(e.ended) {
				return
			}
			backOff = firstBackOff
			retry.Reset(0)
		}
	}
}

// relink greets the guest of a machine that runs unless there's a link, once. It reports false if that must be tried again.
func (e *execution) relink(ctx context.Context) bool {
	if e.link != nil || e.report().State == space.ExecutionPaused {
		return true
	}
	ctx, done := machine.WhileRunning(ctx, e.machine)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	err := e.reachGuest(ctx)
	if err != nil && ctx.Err() == nil {
		e.log.Warn("the guest doesn't answer; will try again", "err", err)
	}
	return err == nil
}

// reattach finds the machine that another life of the daemon started. It reports false when the machine is gone or ctx has ended.
func (e *execution) reattach(ctx context.Context) bool {
	if err := e.loadSessions(); err != nil {
		e.log.Error("can't read the sessions of an execution; it goes on without them", "err", err)
		return false
	}
	h := e.rec.Machine
	if h == nil || h.Driver != e.cfg.Driver.Name() {
		e.lose(ctx, "the node doesn't know the sandbox's machine any more")
		return false
	}
	for backOff := firstBackOff; ctx.Err() == nil; backOff = min(2*backOff, longestBackOff) {
		err := e.recoverMachine(ctx)
		if err == nil {
			err = e.asBefore(ctx)
		}
		if err == nil {
			return true
		}
		if errors.Is(err, vmm.ErrGone) {
			e.lose(ctx, whyGone(err, "the sandbox's machine ended while nobody watched it"))
			return false
		}
		e.log.Warn("can't re-attach to a machine; will try again", "err", err)
		pause(ctx, backOff)
	}
	return false
}

// asBefore has a machine that was found again stand still if the record says that it's paused: the life before may have died in the middle of a resume. One that
// is to run is resumed before it's greeted.
func (e *execution) asBefore(ctx context.Context) error {
	if e.report().State != space.ExecutionPaused {
		return nil
	}
	return e.pauseNow(ctx)
}

// recoverMachine looks for the machine once.
func (e *execution) recoverMachine(ctx context.Context) error {
	h := e.rec.Machine
	if h == nil || h.Driver != e.cfg.Driver.Name() {
		return vmm.ErrGone
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := e.cfg.Driver.Recover(ctx, e.cfg.Enclosures.Find(e.place()), *h)
	if err != nil {
		return err
	}
	e.machine, e.link = m, nil
	return nil
}

// whyGone says why a machine is gone, if the driver knows; what exactly is wrong with its memory is in the log.
func whyGone(err error, otherwise string) string {
	if errors.Is(err, vmm.ErrPages) {
		return "the sandbox's machine was ended because its memory pages can't be had"
	}
	return otherwise
}

// lose says at once that the execution is gone, then frees what it held.
func (e *execution) lose(ctx context.Context, why string) {
	lost := space.Errorf(space.CodeExecutionLost, "%s; its disk is kept until the sandbox is deleted", why)
	e.log.Error("execution lost", "why", why)
	e.unpromise()
	e.become(space.ExecutionLost, problemOf(lost))
	signal(e.attached)
	if e.sessions != nil {
		e.sessions.End(lost)
	}
	e.finishEnding(ctx)
}

// pause waits before another try.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
