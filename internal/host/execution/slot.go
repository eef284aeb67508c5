package execution

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/session"
)

// The times of a slot.
const (
	fillTimeout  = 2 * time.Minute // to make one, in the background of a loaded machine
	wakeTimeout  = 5 * time.Second // for a slot to answer its execution; then another machine is taken
	slotWeight   = 10              // how much of a scarce CPU a slot gets while it's made, in percent of a sandbox's
	slotProbes   = 2               // commands that make the way to a command warm: what they run is in memory then, and translated under emulation
	slotEpoch    = 1
	slotHostname = "slot"
)

// slot is a machine that waits for an execution: loaded from a template's snapshot, warm and paused. It has an identity of its own, that of no
// sandbox. No record tells of it: what a crash leaves belongs to nobody, and is removed.
type slot struct {
	*execution // without an owner, and in no table
	kind       kind
	state      string // the snapshot's: a slot of another snapshot is of no use
	bytes      int64  // that it takes
}

// newSlot makes a slot. What is left of one that fails is the caller's to remove.
func (t *Table) newSlot(k kind) *slot {
	id := space.NewID(space.PrefixExecution)
	r := record{Route: space.Route{Execution: id, Epoch: slotEpoch}, Template: k.template, Size: k.size, State: space.ExecutionPending}
	return &slot{execution: t.newExecution(filepath.Join(t.cfg.Dir, space.HostLabel(id)), r), kind: k}
}

// fill makes the machine.
func (s *slot) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	o, err := s.fromTemplate()
	if err != nil {
		return err
	}
	defer o.give()
	if o.snapshot == nil {
		return space.Errorf(space.CodeTemplateNotReady, "template %s has no snapshot of that size any more", s.kind.template)
	}
	s.state = o.snapshot.State
	if s.rec.Shared, err = o.shared(); err != nil {
		return err
	}
	if s.rec.UID, err = s.takeUID(); err != nil {
		return err
	}
	if err := s.raise(ctx, o, s.background(), startLaps()); err != nil {
		return err
	}
	if err := s.warm(ctx); err != nil {
		return err
	}
	if err := s.machine.Pause(ctx); err != nil {
		return err
	}
	if u, err := s.cfg.Enclosures.Measure(s.place()); err == nil {
		s.bytes = u.MemoryBytes
	}
	return s.cfg.Enclosures.Weigh(s.place())
}

// background is the slot's enclosure while nobody waits for it.
func (s *slot) background() jail.Spec {
	p := s.place()
	p.Limits.CPUWeight = slotWeight
	return p
}

// warm tries commands, whatever comes of them, and keeps the link to the guest if it outlives the pause that comes: a guest that no host is connected
// to looks for one now and then only. A guest that doesn't come up isn't tried again at once: nobody waits for it.
func (s *slot) warm(ctx context.Context) error {
	greeting, cancel := context.WithTimeout(ctx, loadTimeout/2)
	l, err := machine.Meet(greeting, s.machine, machine.Slot, link.Sync{Execution: s.route.Execution, Epoch: slotEpoch, Adopt: true, Hostname: slotHostname})
	cancel()
	shaken(err)
	if err != nil {
		return err
	}
	if s.link = l; !s.cfg.Driver.Capabilities().PauseKeepsLink {
		defer s.unlink()
	}
	dir := s.file(warmName)
	defer os.RemoveAll(dir)
	sessions, err := session.Open(dir, session.Limits{}, s.log)
	if err != nil {
		return err
	}
	defer sessions.Close()
	sessions.Use(l)
	for range slotProbes {
		probe := session.Request{Session: space.NewID(space.PrefixSession), Spec: s.cfg.Templates.Probe(s.kind.template)}
		if err := sessions.Attach(ctx, probe, func(*sessionv1.AttachResponse) error { return nil }); err != nil {
			return err
		}
	}
	return sessions.Settle(ctx)
}

// warmName is the directory of a slot's own sessions, while there are any.
const warmName = "warm"

// unlink lets go of the guest.
func (s *slot) unlink() {
	if s.link != nil {
		s.link.Close()
		s.link = nil
	}
}

// wake greets the slot's guest as that of an execution. Whoever fails removes it.
func (s *slot) wake(ctx context.Context, e *execution) (*link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	if s.link == nil {
		if err := s.machine.Resume(ctx); err != nil {
			return nil, err
		}
		return e.greetAt(ctx, s.machine, true)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.machine.Resume(ctx) })
	g.Go(func() error { // it's there when the machine goes on
		err := s.link.Greet(ctx, e.identity())
		shaken(err)
		return err
	})
	return s.link, g.Wait()
}

// claim makes a slot's machine that of the execution. It reports false if there is none. The record that the execution runs is on the disk then, nil if
// that couldn't be: it's written while the guest is greeted.
func (e *execution) claim(ctx context.Context, o origin, laps *laps) (kept *prepared, claimed bool) {
	if o.snapshot == nil || e.rec.Snapshot != "" {
		return nil, false
	}
	for s := e.table.pool.take(e.rec.Template, o); s != nil; s = e.table.pool.take(e.rec.Template, o) {
		e.mu.Lock()
		r := e.rec
		e.mu.Unlock()
		r.UID, r.Home, r.Size, r.Lineage, r.Shared = s.rec.UID, s.route.Execution, s.rec.Size, o.lineage, s.rec.Shared
		writing := make(chan *prepared, 1)
		go func() { writing <- e.writeDown(s, r) }()
		l, err := s.wake(ctx, e)
		kept = <-writing
		if err != nil {
			e.log.Warn("a machine of the pool doesn't answer; another one is taken", "slot", s.route.Execution, "err", err)
			e.table.pool.discard(s)
			continue
		}
		e.mu.Lock()
		e.dir, e.rec = s.dir, r
		e.mu.Unlock()
		e.machine, e.link, e.unshare = s.machine, l, s.unshare
		laps.lap("claim")
		return kept, true
	}
	return nil, false
}

// writeDown has it on the disk that the execution of a record runs in the slot's machine; nil if it can't be, and is to be tried again.
func (e *execution) writeDown(s *slot, r record) *prepared {
	p, err := r.running(s.machine.Handle()).prepare(s.dir)
	if err != nil {
		e.log.Warn("a record could not be written beforehand", "slot", s.route.Execution, "err", err)
		return nil
	}
	return p
}

// remove removes the slot to its last trace. It may be repeated.
func (s *slot) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	if s.rec.UID == 0 {
		return nil
	}
	if s.machine != nil {
		if err := s.machine.Kill(ctx); err != nil {
			return err
		}
		s.unlink()
		s.machine.Close()
		s.machine = nil
	}
	err := errors.Join(s.cfg.Enclosures.Remove(ctx, s.place()), os.RemoveAll(s.dir))
	if err != nil {
		return fmt.Errorf("remove slot %s: %w", s.route.Execution, err)
	}
	s.unpromise()
	s.cfg.UIDs.Give(s.rec.UID)
	s.rec.UID = 0
	return nil
}
