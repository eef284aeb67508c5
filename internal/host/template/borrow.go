package template

import (
	"log/slog"
	"os"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
)

// Snapshot is what a machine is loaded from.
type Snapshot struct {
	State    string // files
	Memory   string
	Disk     string
	Sealed   *os.File // the memory once more, shared by all machines; nil if it isn't
	Size     rootfs.Size
	Manifest vmm.Manifest
}

// Borrow returns a template's base snapshot, whose files stay as they are until give is called.
func (s *Store) Borrow(template string) (_ Snapshot, give func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.templates[template]
	switch {
	case !ok:
		return Snapshot{}, nil, space.Errorf(space.CodeTemplateNotReady, "the node has no template %s", template)
	case e.State != Ready:
		return Snapshot{}, nil, space.Errorf(space.CodeTemplateNotReady, "template %s is %s", template, e.State)
	}
	e.use.RLock()
	return Snapshot{
		State: e.file(stateName), Memory: e.file(memoryName), Disk: e.file(diskName), Sealed: e.sealed,
		Size: e.m.Size, Manifest: e.m.VMM,
	}, e.use.RUnlock, nil
}

// Reject removes a template whose snapshot turned out not to fit this node, so that it's ordered again.
func (s *Store) Reject(template string) {
	s.mu.Lock()
	e, ok := s.templates[template]
	if !ok || e.State != Ready {
		s.mu.Unlock()
		return
	}
	delete(s.templates, template)
	s.mu.Unlock()
	e.use.Lock()
	defer e.use.Unlock()
	s.mu.Lock()
	s.unshare(e)
	s.mu.Unlock()
	if err := s.cfg.Volume.Delete(e.dir); err != nil {
		slog.Error("can't remove a template that doesn't fit this node", "template", template, "err", err)
	}
	s.cfg.Changed()
}
