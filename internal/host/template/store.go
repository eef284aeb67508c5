package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// The limits of a store.
const (
	maxTemplates = 200
	maxQueue     = 150                    // builds that wait or are at work
	maxOwnQueue  = 50                     // of one project
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
	turns  turns
	layers *layers

	mu          sync.Mutex // guards what follows
	templates   map[string]*entry
	sealedBytes int64 // that the shared memories of all templates may become
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
	failures int  // of the tries to make it anew, since it was ready
	broken   int  // of these, those for another reason than want of room
	removing bool
}

// Report is what the node knows of a template.
type Report struct {
	Template   string
	State      string
	Err        error       // a *space.Error, with Failed
	FailedStep int         // with Failed: from 1; 0 for the source, AfterSteps for what comes after the last one
	Size       rootfs.Size // with Ready
	Progress   string      // with Building
	Digest     string      // of the manifest, with Ready
	Defaults   Defaults    // with Ready
	Log        []Line      // that the control plane doesn't have, as many as a report takes
}

// Ensure begins a build unless the template is there or being built, and returns at once. A full queue is unavailable: whoever orders builds tries again.
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
	if err := s.admit(o.Project, ok); err != nil {
		return err
	}
	if ok && old.base != nil {
		old.order.Login = o.Login
		old.failures, old.broken = 0, 0
		s.renew(old)
		return nil
	}
	e := &entry{order: o, shapes: map[rootfs.Size]*shape{}, Report: Report{Template: o.Template}}
	s.templates[o.Template] = e
	s.begin(e, o.Project, size, (*builder).build)
	return nil
}

// admit says why a build can't begin. mu is held.
func (s *Store) admit(project string, known bool) error {
	queue, own := 0, 0
	for _, e := range s.templates {
		if e.job == nil {
			continue
		}
		queue++
		if e.job.project == project {
			own++
		}
	}
	switch {
	case s.closed:
		return errClosed
	case !known && len(s.templates) >= maxTemplates:
		return space.Errorf(space.CodeCapacity, "the node has %d templates, which is its limit", maxTemplates)
	case own >= maxOwnQueue:
		return space.Errorf(space.CodeUnavailable, "%d templates of the project are being built or wait for it, which is the limit: try again when one is ready", maxOwnQueue)
	case queue >= maxQueue:
		return space.Errorf(space.CodeUnavailable, "%d templates are being built or wait for it, which is the limit", maxQueue)
	}
	return nil
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
	if err := errors.Join(s.cfg.Volume.Delete(b.dir), s.dropWorkingSet(b)); err != nil {
		slog.Error("can't remove a template's snapshot", "template", b.m.Template, "dir", b.dir, "err", err)
		return fmt.Errorf("remove template %s: %w", b.m.Template, err)
	}
	return nil
}
