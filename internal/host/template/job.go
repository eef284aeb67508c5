package template

import (
	"context"
	"log/slog"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// job is a build that waits or is at work.
type job struct {
	template string
	project  string        // "" for what nobody's waiting for: see background
	memory   int64         // of its machine, in bytes
	turn     chan struct{} // closed when its turn has come
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when it's over

	// set before turn is closed
	refused  error  // why it gets none
	takeBack func() // takes its machine's memory back
}

// machineGone gives its machine's memory back. It may be called again.
func (j *job) machineGone() {
	if j.takeBack != nil {
		j.takeBack()
	}
}

// waiting is the progress of a build before its turn.
const waiting = "waiting for its turn"

// background is the project of what the node does for itself: snapshots that are made anew, or of other shapes.
const background = ""

// errRemoved ends the build of a template that isn't wanted any more; errClosed ends all of them.
var (
	errRemoved = space.Errorf(space.CodeConflict, "the template was removed")
	errClosed  = space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
	errTooLong = space.Errorf(space.CodeTimeout, "the build didn't end within %s", buildTimeout)
)

// begin begins a build for a project, after a pause if it's a try again. mu is held.
func (s *Store) begin(e *entry, project string, size rootfs.Size, how func(*builder, context.Context) (*base, error)) {
	e.State, e.Err, e.FailedStep, e.Progress = Building, nil, 0, waiting
	e.job = s.start(e.Template, project, size, s.cfg.pauseBefore(e.failures), func(ctx context.Context, j *job) { s.build(ctx, j, e, size, how) })
	s.cfg.Changed()
}

// start starts a job, which gets its turn after a pause and before it's called; if it gets none its context has ended, with the reason. mu is held.
func (s *Store) start(template, project string, size rootfs.Size, before time.Duration, work func(context.Context, *job)) *job {
	ctx, cancel := context.WithCancelCause(s.ctx)
	j := &job{
		template: template, project: project, memory: size.MemoryBytes, turn: make(chan struct{}), cancel: cancel, done: make(chan struct{}),
	}
	s.builds.Go(func() {
		defer close(j.done)
		defer cancel(nil)
		if pause(ctx, before) != nil {
			return
		}
		switch err := s.turns.take(ctx, j); {
		case err == nil:
			defer s.turns.give(j)
		case ctx.Err() != nil:
			return
		default:
			cancel(err)
		}
		limited, stop := context.WithTimeoutCause(ctx, buildTimeout, errTooLong)
		defer stop()
		work(limited, j)
	})
	return j
}

// build builds, and notes what became of it.
func (s *Store) build(ctx context.Context, j *job, e *entry, size rootfs.Size, how func(*builder, context.Context) (*base, error)) {
	b := s.builder(e, size)
	b.now("beginning")
	var made *base
	err := context.Cause(ctx)
	if err == nil {
		made, err = how(b, ctx)
	}
	j.machineGone() // before anybody is told
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
		e.failures, e.broken = 0, 0
		e.log.add(b.step, "the template is ready")
	case s.ctx.Err() == nil && !e.removing && old != nil && s.loadable(old):
		e.State = Ready
		why, where := failure(err), at(b.step, err)
		e.log.add(stepOf(where), "it could not be made anew, and stays as it was: "+why.Message)
		tellFailure("a template could not be made anew; it stays as it was", e.Template, why, where)
		kept = true
	case s.ctx.Err() == nil && !e.removing && old != nil && e.mayRetry(failure(err)):
		s.retry(e, failure(err), at(b.step, err))
	case s.ctx.Err() == nil && !e.removing:
		why, where := failure(err), at(b.step, err)
		e.State, e.Err, e.FailedStep = Failed, why, b.order.failedStep(where)
		e.log.add(stepOf(where), "the build failed: "+why.Message)
		tellFailure("a template could not be built", e.Template, why, where)
	}
	if e.job == nil {
		e.order.Login = nil
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

// tellFailure logs that a build failed. What its commands printed is its project's and may hold secrets: only the node's own faults are told whole.
func tellFailure(what, template string, why *space.Error, err error) {
	if why.Code == space.CodeInternal {
		slog.Error(what, "template", template, "err", err)
		return
	}
	slog.Warn(what, "template", template, "code", why.Code, "step", stepOf(err), "field", why.Field)
}

// builder returns what makes a template.
func (s *Store) builder(e *entry, size rootfs.Size) *builder {
	return &builder{
		cfg: &s.cfg, layers: s.layers, order: e.order, size: size,
		dir: s.newDir(e.Template) + buildSuffix, borrow: s.borrowBase,
		log: func(step int, text string) { s.update(func() { e.log.add(step, text) }, s.tellSoon) },
		now: func(line string) {
			slog.Info("building a template", "template", e.Template, "doing", line)
			s.update(func() { e.Progress = line[:min(len(line), maxProgress)] }, s.cfg.Changed)
		},
	}
}
