package template

import (
	"context"
	"log/slog"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

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
	e.job, e.Progress, e.order.Login = nil, "", nil
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
