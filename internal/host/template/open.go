package template

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
)

// Open reads the templates in a directory, which it makes if need be, and removes what isn't one. Those whose snapshot doesn't fit today's kernel, guest
// or driver get a new one, made from their disk, and those whose recipe has changed are built anew. The old one goes when the new one is there.
func Open(_ context.Context, cfg Config) (*Store, error) {
	for _, dir := range []string{cfg.Dir, cfg.Layers, cfg.Sets, cfg.Blobs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open the templates: %w", err)
		}
	}
	s := &Store{cfg: cfg, templates: map[string]*entry{}, layers: newLayers(cfg), turns: turns{fits: cfg.fits, promise: cfg.promise}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open the templates: %w", err)
	}
	if err := s.sweepWorkingSets(); err != nil {
		return nil, fmt.Errorf("open the templates: %w", err)
	}
	for _, e := range s.templates {
		s.adopt(e)
	}
	return s, nil
}

// load reads all directories: the templates' own snapshots first, so that the others find theirs.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	var secondary []*base
	for _, d := range entries {
		b, err := s.read(filepath.Join(s.cfg.Dir, d.Name()))
		switch {
		case err != nil:
			return err
		case b == nil:
		case b.m.Secondary:
			secondary = append(secondary, b)
		default:
			if err := s.addOwn(b); err != nil {
				return err
			}
		}
	}
	for _, b := range secondary {
		if err := s.addSecondary(b); err != nil {
			return err
		}
	}
	return nil
}

// read reads one directory, or removes it.
func (s *Store) read(dir string) (*base, error) {
	if strings.HasSuffix(dir, buildSuffix) {
		return nil, s.cfg.Volume.Delete(dir)
	}
	b, err := readBase(dir)
	if err == nil {
		err = s.usable(b)
	}
	if err != nil {
		slog.Info("removing a template", "dir", dir, "why", err)
		return nil, s.cfg.Volume.Delete(dir)
	}
	if err := b.verify(); err != nil {
		slog.Error("a snapshot is damaged; it's made anew", "dir", dir, "err", err)
		b.unfit = true
	}
	return b, nil
}

// usable says why a snapshot is of no use.
func (s *Store) usable(b *base) error {
	if b.m.Order.Template != b.m.Template || b.m.Order.Check() != nil || space.CheckID(space.PrefixTemplate, b.m.Template) != nil {
		return errors.New("its manifest makes no sense")
	}
	if b.m.Sources.Recipe != "" && sourcesOf(&s.cfg, b.m.Order).Recipe == "" {
		return errors.New("its recipe is gone")
	}
	return nil
}

// current tells whether a snapshot can be loaded here.
func (s *Store) current(b *base) bool { return b.m.Sources == sourcesOf(&s.cfg, b.m.Order) }

// addOwn adds a template's own snapshot. Of two, which a daemon left that died before it removed the older one, the newer stays.
func (s *Store) addOwn(b *base) error {
	old, ok := s.templates[b.m.Template]
	if ok && old.base.m.Made.After(b.m.Made) {
		return s.cfg.Volume.Delete(b.dir)
	}
	if ok {
		if err := s.cfg.Volume.Delete(old.base.dir); err != nil {
			return err
		}
	}
	s.templates[b.m.Template] = &entry{order: b.m.Order, base: b, shapes: map[rootfs.Size]*shape{}, Report: Report{
		Template: b.m.Template, State: Ready, Size: b.m.Size, Digest: b.digest, Defaults: b.m.Defaults,
	}}
	return nil
}

// addSecondary adds a snapshot of another shape, which is removed if it can't be loaded: it comes back when it's needed.
func (s *Store) addSecondary(b *base) error {
	e, ok := s.templates[b.m.Template]
	if !ok || b.unfit || !s.current(b) || b.m.Made.Before(e.base.m.Made) {
		return s.cfg.Volume.Delete(b.dir)
	}
	e.shapes[b.m.Size] = &shape{base: b, used: b.m.Made}
	return nil
}

// adopt gets a template ready that was read: by sharing its memory, or by making it anew.
func (s *Store) adopt(e *entry) {
	if s.current(e.base) && !e.base.unfit {
		for _, b := range e.snapshots() {
			s.share(b)
		}
		return
	}
	slog.Info("a template is made anew: it's damaged, or its recipe, kernel, guest or driver have changed", "template", e.Template)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renew(e)
}

// renew makes a template's own snapshot anew: from its disk if that is what its order makes, else from the order. After failures it waits before. mu is held.
func (s *Store) renew(e *entry) {
	from, how := e.base, (*builder).build
	size, err := e.order.sized()
	if err != nil || from.checkFile(diskName) == nil && from.m.Sources.Recipe == sourcesOf(&s.cfg, e.order).Recipe {
		size, how = from.m.Size, func(b *builder, ctx context.Context) (*base, error) { return b.again(ctx, from) }
	}
	s.begin(e, background, size, how)
}

// loadable tells whether machines can still be loaded from a snapshot although it isn't what would be made today. mu is held.
func (s *Store) loadable(b *base) bool {
	now, then := sourcesOf(&s.cfg, b.m.Order), b.m.Sources
	return !b.unfit && b.check() == nil && now.Driver == then.Driver && now.Acceleration == then.Acceleration && now.Version == then.Version
}

// newDir is the name of a directory that nothing has.
func (s *Store) newDir(template string) string {
	return filepath.Join(s.cfg.Dir, space.HostLabel(template)+"-"+strings.ToLower(rand.Text()))
}
