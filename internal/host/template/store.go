package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// The limits of a store.
const (
	maxTemplates = 200
	maxBuilds    = 1       // at the same time; others wait
	maxProgress  = 1 << 10 // bytes of a progress line
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
	cancel context.CancelFunc
	builds sync.WaitGroup
	turn   chan struct{} // held by those that build

	mu          sync.Mutex // guards what follows
	templates   map[string]*entry
	sealedBytes int64 // kept in memory for all templates
	closed      bool
}

// entry is one template.
type entry struct {
	Report
	use sync.RWMutex // held for reading by those who load from it
	dir string
	m   manifest // when ready

	sealed *os.File // its memory, shared by all machines; nil if it isn't
}

func (e *entry) file(name string) string { return filepath.Join(e.dir, name) }

// Report is what the node knows of a template.
type Report struct {
	Template string
	State    string
	Err      error       // a *space.Error, with Failed
	Size     rootfs.Size // with Ready
	Progress string      // with Building
	Digest   string      // of the manifest, with Ready
}

// Open reads the templates in a directory, which it makes if need be, and removes what isn't one or is out of date.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the templates: %w", err)
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the templates: %w", err)
	}
	s := &Store{cfg: cfg, templates: map[string]*entry{}, turn: make(chan struct{}, maxBuilds)}
	for _, e := range entries {
		if err := s.read(filepath.Join(cfg.Dir, e.Name())); err != nil {
			return nil, fmt.Errorf("open the templates: %w", err)
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, e := range s.templates {
		s.share(e)
	}
	return s, nil
}

// read takes in one directory, or removes it.
func (s *Store) read(dir string) error {
	if strings.HasSuffix(dir, buildSuffix) {
		return s.cfg.Volume.Delete(dir)
	}
	m, digest, err := readManifest(dir)
	if err == nil && !s.current(m) {
		err = errors.New("it was made with another kernel, guest, recipe or driver")
	}
	if err != nil {
		slog.Info("removing a template", "dir", dir, "why", err)
		return s.cfg.Volume.Delete(dir)
	}
	s.templates[m.Template] = &entry{dir: dir, m: m, Report: Report{Template: m.Template, State: Ready, Size: m.Size, Digest: digest}}
	return nil
}

// current reports whether a template would be made the same way today.
func (s *Store) current(m manifest) bool {
	r, err := rootfs.Find(m.Recipe)
	if err != nil {
		return false
	}
	r, err = r.Sized(m.Size)
	return err == nil && m.Sources == s.sources(r)
}

func (s *Store) sources(r rootfs.Recipe) sources {
	c := s.cfg.Driver.Capabilities()
	return sources{
		Recipe: r.Digest(), Kernel: s.cfg.Kernel.Digest, Driver: s.cfg.Driver.Name(), Acceleration: c.Acceleration, Version: c.Version,
	}
}

// Ensure begins a build unless the template is there or being built, and returns at once. The zero size is the recipe's own.
func (s *Store) Ensure(template, recipe string, size rootfs.Size) error {
	r, err := rootfs.Find(recipe)
	if err != nil {
		return err
	}
	if r, err = r.Sized(size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.templates[template]; ok && e.State != Failed {
		return nil
	}
	switch {
	case s.closed:
		return space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
	case len(s.templates) >= maxTemplates:
		return space.Errorf(space.CodeCapacity, "the node has %d templates, which is its limit", maxTemplates)
	}
	e := &entry{dir: filepath.Join(s.cfg.Dir, space.HostLabel(template)), Report: Report{Template: template, State: Building, Progress: "waiting for its turn"}}
	s.templates[template] = e
	s.builds.Go(func() { s.build(e, r) })
	s.cfg.Changed()
	return nil
}

// build waits for its turn and builds.
func (s *Store) build(e *entry, r rootfs.Recipe) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-s.ctx.Done():
		return
	}
	b := builder{cfg: &s.cfg, template: e.Template, recipe: r, sources: s.sources(r), dir: e.dir + buildSuffix, progress: func(line string) {
		slog.Info("building a template", "template", e.Template, "recipe", r.Name, "step", line)
		s.update(e, func() { e.Progress = line[:min(len(line), maxProgress)] })
	}}
	m, digest, err := b.build(s.ctx, e.dir)
	if s.ctx.Err() != nil {
		return
	}
	if err != nil {
		slog.Error("a template could not be built", "template", e.Template, "recipe", r.Name, "err", err)
		s.update(e, func() { e.State, e.Err, e.Progress = Failed, failure(err), "" })
		return
	}
	e.m = m
	s.share(e)
	s.update(e, func() { e.State, e.Progress, e.Size, e.Digest = Ready, "", m.Size, digest })
}

// failure is what a user is told of a failed build: the cause, since whoever builds templates here runs the machine.
func failure(err error) error {
	var e *space.Error
	if errors.As(err, &e) {
		return e
	}
	return space.Errorf(space.CodeInternal, "the build failed: %w", err)
}

func (s *Store) update(e *entry, change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.cfg.Changed()
}

// Reports returns what is known of all templates, in the order of their ids.
func (s *Store) Reports() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Report
	for _, e := range s.templates {
		out = append(out, e.Report)
	}
	slices.SortFunc(out, func(a, b Report) int { return strings.Compare(a.Template, b.Template) })
	return out
}

// Close ends all builds and removes what they left.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.builds.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.templates {
		s.unshare(e)
	}
}
