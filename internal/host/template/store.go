package template

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// The limits of a store.
const (
	maxTemplates = 200
	maxBuilds    = 1                      // at the same time; others wait
	maxQueue     = 50                     // builds that wait
	maxProgress  = 1 << 10                // bytes of a progress line
	buildTimeout = 30 * time.Minute       // of one build, from its turn on
	logPause     = 300 * time.Millisecond // in which lines gather before anybody is told
)

// buildSuffix ends the name of a directory whose build isn't finished.
const buildSuffix = ".new"

// The states of a template, as reports have them.
const (
	Building = "building"
	Ready    = "ready"
	Failed   = "failed"
)

// Store holds the templates of this node.
type Store struct {
	cfg    Config
	ctx    context.Context // ends all builds
	cancel context.CancelCauseFunc
	builds sync.WaitGroup
	turn   chan struct{} // held by those that build

	mu          sync.Mutex // guards what follows
	templates   map[string]*entry
	sealedBytes int64 // kept in memory for all templates
	closed      bool
	telling     *time.Timer // says soon that there are new lines; nil if nobody needs to
}

// entry is one template. The store's mu guards it.
type entry struct {
	Report
	order    Order
	log      buildLog
	base     *base // its own snapshot; what is to be made anew, while it isn't ready; nil if there is none
	shapes   map[rootfs.Size]*shape
	job      *job // that makes it; nil if none does
	removing bool
}

// Report is what the node knows of a template.
type Report struct {
	Template   string
	State      string
	Err        error       // a *space.Error, with Failed
	FailedStep int         // with Failed: from 1; 0 for the source; one more than there are steps for what comes after them
	Size       rootfs.Size // with Ready
	Progress   string      // with Building
	Digest     string      // of the manifest, with Ready
	Defaults   Defaults    // with Ready
	Log        []Line      // that the control plane doesn't have, as many as a report takes
}

// job is a build that waits or is at work.
type job struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it's over
}

// errRemoved ends the build of a template that isn't wanted any more; errClosed ends all of them.
var (
	errRemoved = space.Errorf(space.CodeConflict, "the template was removed")
	errClosed  = space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
	errTooLong = space.Errorf(space.CodeTimeout, "the build didn't end within %s", buildTimeout)
)

// Ensure begins a build unless the template is there or being built, and returns at once.
func (s *Store) Ensure(o Order) error {
	if err := o.Check(); err != nil {
		return err
	}
	size, err := o.sized()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.templates[o.Template]
	if ok && old.State != Failed {
		return nil
	}
	if err := s.admit(ok); err != nil {
		return err
	}
	if ok && old.base != nil {
		s.renew(old)
		return nil
	}
	e := &entry{order: o, shapes: map[rootfs.Size]*shape{}, Report: Report{Template: o.Template}}
	s.templates[o.Template] = e
	s.begin(e, size, (*builder).build)
	return nil
}

// admit says why a build can't begin. mu is held.
func (s *Store) admit(known bool) error {
	queue := 0
	for _, e := range s.templates {
		if e.job != nil {
			queue++
		}
	}
	switch {
	case s.closed:
		return errClosed
	case !known && len(s.templates) >= maxTemplates:
		return space.Errorf(space.CodeCapacity, "the node has %d templates, which is its limit", maxTemplates)
	case queue >= maxQueue:
		return space.Errorf(space.CodeCapacity, "%d templates are being built or wait for it, which is the limit", maxQueue)
	}
	return nil
}

// begin begins a build. mu is held.
func (s *Store) begin(e *entry, size rootfs.Size, how func(*builder, context.Context) (*base, error)) {
	e.State, e.Err, e.FailedStep, e.Progress = Building, nil, 0, "waiting for its turn"
	e.job = s.start(func(ctx context.Context) { s.build(ctx, e, size, how) })
	s.cfg.Changed()
}

// start starts a job, which gets its turn before it's called. mu is held.
func (s *Store) start(work func(context.Context)) *job {
	ctx, cancel := context.WithCancelCause(s.ctx)
	j := &job{cancel: cancel, done: make(chan struct{})}
	s.builds.Go(func() {
		defer close(j.done)
		defer cancel(nil)
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			return
		}
		limited, stop := context.WithTimeoutCause(ctx, buildTimeout, errTooLong)
		defer stop()
		work(limited)
	})
	return j
}

// build builds, and notes what became of it.
func (s *Store) build(ctx context.Context, e *entry, size rootfs.Size, how func(*builder, context.Context) (*base, error)) {
	b := s.builder(e, size)
	made, err := how(b, ctx)
	if err == nil {
		s.share(made)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	old, kept := e.base, false
	e.job, e.Progress = nil, ""
	switch {
	case err == nil:
		e.base, e.State, e.Size, e.Digest, e.Defaults = made, Ready, made.m.Size, made.digest, made.m.Defaults
		e.log.add(b.step, "the template is ready")
	case s.ctx.Err() == nil && !e.removing && old != nil && s.loadable(old):
		e.State = Ready
		e.log.add(stepOf(at(b.step, err)), "it could not be made anew, and stays as it was: "+failure(err).Message)
		slog.Error("a template could not be made anew; it stays as it was", "template", e.Template, "err", err)
		kept = true
	case s.ctx.Err() == nil && !e.removing:
		why := failure(err)
		e.State, e.Err, e.FailedStep = Failed, why, stepOf(at(b.step, err))
		e.log.add(e.FailedStep, "the build failed: "+why.Message)
		slog.Error("a template could not be built", "template", e.Template, "err", err)
	}
	s.mu.Unlock()
	s.cfg.Changed()
	if kept {
		s.share(old)
	}
	if err == nil && old != nil {
		s.destroy(old)
	}
}

// builder returns what makes a template.
func (s *Store) builder(e *entry, size rootfs.Size) *builder {
	return &builder{
		cfg: &s.cfg, layers: layers{dir: s.cfg.Layers, limit: s.cfg.LayerBytes, clone: s.cfg.Clone}, order: e.order, size: size,
		dir: s.newDir(e.Template) + buildSuffix, borrow: s.borrowBase,
		log: func(step int, text string) { s.update(func() { e.log.add(step, text) }, s.tellSoon) },
		now: func(line string) {
			slog.Info("building a template", "template", e.Template, "doing", line)
			s.update(func() { e.Progress = line[:min(len(line), maxProgress)] }, s.cfg.Changed)
		},
	}
}

func (s *Store) update(change, tell func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	tell()
}

// tellSoon says a little later that a report has changed, once for all lines until then.
func (s *Store) tellSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling == nil && !s.closed {
		s.telling = time.AfterFunc(logPause, func() {
			s.update(func() { s.telling = nil }, s.cfg.Changed)
		})
	}
}

// Acknowledge says which lines of builds' logs the control plane has, by their templates.
func (s *Store) Acknowledge(received map[string]uint64) {
	s.mu.Lock()
	more := false
	for id, n := range received {
		if e, ok := s.templates[id]; ok {
			e.log.acknowledge(n)
			more = more || len(e.log.lines) > 0
		}
	}
	s.mu.Unlock()
	if more {
		s.cfg.Changed()
	}
}

// Reports returns what is known of all templates, in the order of their ids.
func (s *Store) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Report
	for _, e := range s.templates {
		if e.removing {
			continue
		}
		r := e.Report
		r.Log = e.log.report()
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Report) int { return strings.Compare(a.Template, b.Template) })
	return out
}

// Close ends all builds and removes what they left.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	if s.telling != nil {
		s.telling.Stop()
	}
	s.mu.Unlock()
	s.cancel(errClosed)
	s.builds.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.templates {
		for _, b := range e.snapshots() {
			s.unshare(b)
		}
	}
}

// snapshots are all that are on file of a template.
func (e *entry) snapshots() []*base {
	var out []*base
	if e.base != nil {
		out = append(out, e.base)
	}
	for _, x := range e.shapes {
		if x.base != nil {
			out = append(out, x.base)
		}
	}
	return out
}

// destroy removes a snapshot that nobody finds any more, as soon as nobody loads from it. mu isn't held.
func (s *Store) destroy(b *base) error {
	b.use.Lock()
	defer b.use.Unlock()
	s.mu.Lock()
	s.unshare(b)
	s.mu.Unlock()
	if err := s.cfg.Volume.Delete(b.dir); err != nil {
		slog.Error("can't remove a template's snapshot", "template", b.m.Template, "dir", b.dir, "err", err)
		return fmt.Errorf("remove template %s: %w", b.m.Template, err)
	}
	return nil
}
