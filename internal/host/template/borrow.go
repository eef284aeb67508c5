package template

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/vmm"
)

// Snapshot is what a machine is loaded from.
type Snapshot struct {
	State      string // files
	Memory     string
	Disk       string
	DiskDigest string
	Digest     string   // of its manifest, which names it
	Kernel     string   // digest of the kernel and initramfs that run in it
	WorkingSet string   // path of the file for what its machines need of the memory first, which needn't be there
	Sessions   string   // a directory with the sessions that run in it; "": none
	Sealed     *os.File // the memory once more, shared by all machines; nil if it isn't
	Size       rootfs.Size
	Manifest   vmm.Manifest
}

// Borrow returns a template's own snapshot, whose files stay as they are until give is called.
func (s *Store) Borrow(template string) (_ Snapshot, give func(), err error) {
	return s.SnapshotFor(template, rootfs.Size{})
}

// SnapshotFor returns a template's snapshot for machines of a size. If there is none it's the template's own, whose size is another one: a
// machine can boot from its disk then, made as large as wanted. The files stay as they are until give is called.
func (s *Store) SnapshotFor(template string, size rootfs.Size) (_ Snapshot, give func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.ready(template)
	if err != nil {
		return Snapshot{}, nil, err
	}
	b := e.base
	if x, ok := e.shapes[size]; ok && x.base != nil {
		if err := x.base.check(); err == nil {
			b = x.base
			x.used = time.Now()
		} else {
			slog.Error("a snapshot's files have changed under the daemon; it's made anew when it's needed again", "template", template, "shape", size, "err", err)
			s.discard(x.base)
			delete(e.shapes, size)
		}
	}
	if err := b.check(); err != nil {
		slog.Error("a template's files have changed under the daemon; it's made anew", "template", template, "err", err)
		s.renew(e)
		return Snapshot{}, nil, space.Errorf(space.CodeTemplateNotReady, "template %s was damaged and is being made anew; try again when it's ready", template)
	}
	b.use.RLock() // nobody waits to write whom a template still shows
	s.shareLater(b)
	return s.snapshot(b), b.use.RUnlock, nil
}

// Origin returns the files of a template's snapshot that has a digest, which stay until give is called; a nil give: it has none.
func (s *Store) Origin(template, digest string) (o snapshot.Origin, give func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.templates[template]
	if !ok || e.removing {
		return o, nil
	}
	for _, b := range e.snapshots() {
		if b.digest == digest {
			b.use.RLock()
			return snapshot.Origin{Disk: b.file(diskName), Memory: b.file(memoryName)}, b.use.RUnlock
		}
	}
	return o, nil
}

// Loadable is a snapshot from which machines can be loaded.
type Loadable struct {
	Template string
	Size     rootfs.Size
	State    string // its device state's file, which no other snapshot has
	Own      bool   // it's the template's own shape
}

// Loadable returns all snapshots of templates that are ready: their own, and those of other shapes.
func (s *Store) Loadable() []Loadable {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Loadable
	for id, e := range s.templates {
		if e.removing || e.State != Ready {
			continue
		}
		for _, b := range e.snapshots() {
			out = append(out, Loadable{Template: id, Size: b.m.Size, State: b.file(stateName), Own: b == e.base})
		}
	}
	return out
}

// discard removes a snapshot that nobody finds any more, in the background. mu is held.
func (s *Store) discard(b *base) { s.builds.Go(func() { s.destroy(b) }) }

// ready returns a template that is. mu is held.
func (s *Store) ready(template string) (*entry, error) {
	e, ok := s.templates[template]
	switch {
	case !ok || e.removing:
		return nil, space.Errorf(space.CodeTemplateNotReady, "the node has no template %s", template)
	case e.State != Ready:
		return nil, space.Errorf(space.CodeTemplateNotReady, "template %s is %s", template, e.State)
	}
	return e, nil
}

func (s *Store) snapshot(b *base) Snapshot {
	out := Snapshot{
		State: b.file(stateName), Memory: b.file(memoryName), Disk: b.file(diskName), DiskDigest: b.m.Files[diskName].SHA256, Sealed: b.sealed,
		Size: b.m.Size, Manifest: b.m.VMM, Digest: b.digest, WorkingSet: s.workingSet(b), Kernel: b.m.Sources.Kernel,
	}
	if b.m.Order.Start != "" {
		out.Sessions = filepath.Join(b.dir, sessionsName)
	}
	return out
}

// borrowBase is for a build that begins with another template.
func (s *Store) borrowBase(template string) (Snapshot, Defaults, func(), error) {
	snapshot, give, err := s.Borrow(template)
	if err != nil {
		return Snapshot{}, Defaults{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return snapshot, s.templates[template].Defaults, give, nil
}

// Reject says that a template's snapshots turned out not to fit this node: its own is made anew.
func (s *Store) Reject(template string) {
	s.mu.Lock()
	e, err := s.ready(template)
	if err != nil {
		s.mu.Unlock()
		return
	}
	gone := e.dropShapes()
	e.base.unfit = true
	s.renew(e)
	s.mu.Unlock()
	for _, b := range gone {
		s.destroy(b) // what stays is removed at the next Open
	}
}

// Remove removes a template to its last trace, its build included; layers that it shares with others stay. It may be repeated. A template that
// isn't there is no error.
func (s *Store) Remove(id string) error {
	s.mu.Lock()
	e, ok := s.templates[id]
	if !ok {
		s.mu.Unlock()
		return nil
	}
	e.removing = true
	jobs := e.jobs()
	s.mu.Unlock()
	for _, j := range jobs {
		j.cancel(errRemoved)
		<-j.done // it ends what it's at, and removes what it made
	}
	s.mu.Lock()
	all := e.snapshots()
	s.mu.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, s.destroy(b))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	if s.templates[id] == e {
		delete(s.templates, id)
	}
	s.mu.Unlock()
	s.cfg.Changed()
	return nil
}

// jobs are all that are at work for a template. mu is held.
func (e *entry) jobs() []*job {
	var out []*job
	if e.job != nil {
		out = append(out, e.job)
	}
	for _, x := range e.shapes {
		if x.job != nil {
			out = append(out, x.job)
		}
	}
	return out
}
