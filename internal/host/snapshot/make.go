package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/peer"
)

// Building is a snapshot that is being made. One of Publish, Fail and Abandon ends it.
type Building struct {
	store *Store
	entry *entry
	dir   string

	// For Publish: what is known to be written over the copy of a memory, and, unless nil, what is called at the end of each step.
	Written seal.Content
	Lap     func(step string)

	earlier []seal.Part // the parts of the memory that this begins as a copy of, if it's an earlier snapshot's, that aren't its origin's
}

func (b *Building) lap(step string) {
	if b.Lap != nil {
		b.Lap(step)
	}
}

// Begin names a snapshot that is to be made; it's reported as making from then on. There is nothing to do if it's there already, being made or failed: then
// it returns nil.
func (s *Store) Begin(o Order) (*Building, error) {
	if err := space.CheckID(space.PrefixSnapshot, o.Snapshot); err != nil {
		return nil, space.FieldErrorf("snapshot", "%s", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[o.Snapshot]; ok {
		if e.Route != o.Route || e.Kind != o.Kind {
			return nil, space.Errorf(space.CodeConflict, "snapshot %s is there, of another execution or kind", o.Snapshot)
		}
		return nil, nil
	}
	switch {
	case s.closed:
		return nil, space.Errorf(space.CodeUnavailable, "the node's host is stopping; try again")
	case len(s.entries) >= maxSnapshots:
		return nil, space.Errorf(space.CodeCapacity, "the node has %d snapshots, which is its limit", maxSnapshots)
	}
	e := &entry{Order: o, state: Making, dir: s.dirOf(o.Snapshot, buildSuffix)}
	s.entries[o.Snapshot] = e
	s.cfg.Changed()
	return &Building{store: s, entry: e, dir: e.dir}, nil
}

// Make makes the directory, empty.
func (b *Building) Make() error {
	if err := b.store.cfg.Volume.Delete(b.dir); err != nil {
		return fmt.Errorf("make snapshot %s: %w", b.entry.Snapshot, err)
	}
	if err := b.store.cfg.Volume.Make(b.dir); err != nil {
		return fmt.Errorf("make snapshot %s: %w", b.entry.Snapshot, err)
	}
	return nil
}

// File is the path of a file of it.
func (b *Building) File(name string) string { return filepath.Join(b.dir, name) }

// Snapshot is its id.
func (b *Building) Snapshot() string { return b.entry.Snapshot }

// Kind is what it's to hold.
func (b *Building) Kind() Kind { return b.entry.Kind }

// Publish makes it durable and ready. An error has made nothing of it; Fail or Abandon removes what is left. It doesn't have its name then, not even until they
// come: whoever suspends lets the machine go on, and a life that begins now would go by the name.
func (b *Building) Publish(ctx context.Context, m Machine) error {
	out := manifest{Format: format, Order: b.entry.Order, Machine: m, Files: map[string]seal.Info{}}
	if err := b.seal(ctx, &out); err != nil {
		return fmt.Errorf("seal snapshot %s: %w", b.entry.Snapshot, err)
	}
	b.lap("files")
	if err := durable.WriteJSON(b.File(manifestName), out, 0o600); err != nil {
		return fmt.Errorf("seal snapshot %s: %w", b.entry.Snapshot, err)
	}
	b.lap("manifest")
	bytes := b.store.count(ctx, b.entry.Order, b.dir)
	b.lap("count")
	final := b.store.dirOf(b.entry.Snapshot, "")
	err := seal.Publish(b.store.cfg.Volume, b.dir, final)
	if err == nil {
		b.lap("name")
		err = b.ready(final, bytes)
	}
	if err != nil {
		b.drop()
	}
	return err
}

// seal makes the files and the sessions durable, all at the same time, and notes what they hold.
func (b *Building) seal(ctx context.Context, m *manifest) error {
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // guards m.Files
	start := func(name string, how func(ctx context.Context, path string, m *manifest) (seal.Info, error)) {
		g.Go(func() error {
			info, err := how(ctx, b.File(name), m)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			m.Files[name] = info
			return nil
		})
	}
	from := m.Machine // as it's before any of them notes something
	start(DiskName, func(ctx context.Context, path string, m *manifest) (seal.Info, error) {
		return b.sealDisk(ctx, path, m, from)
	})
	if m.Kind == Full {
		start(MemoryName, func(ctx context.Context, path string, m *manifest) (seal.Info, error) {
			return b.sealMemory(ctx, path, m, from)
		})
		start(StateName, b.sealState)
	}
	if m.Sessions > 0 {
		start(SessionsName, b.sealSessions)
	}
	g.Go(func() error { return durable.SyncDir(b.dir) })
	return g.Wait()
}

// sealDisk makes the disk durable and notes what differs from its origin, or, if that's gone, from the template's: what a machine was loaded from goes when
// the first snapshot of it is ready, and its disk may be large. All of it is noted if both are gone, or it's cut into too many pieces.
func (b *Building) sealDisk(ctx context.Context, path string, m *manifest, from Machine) (seal.Info, error) {
	if err := os.Chown(path, 0, 0); err != nil {
		return seal.Info{}, err
	}
	size, err := syncFile(path)
	if err != nil {
		return seal.Info{}, err
	}
	o, give := b.store.origin(m.Template, from)
	if give == nil && from.Parent != "" {
		o, give = b.store.origin(m.Template, from.ofTemplate())
		m.DiskOfTemplate = give != nil
	}
	var d difference
	err = disk.ErrFragmented
	if give != nil {
		d, err = b.store.differing(ctx, path, o.Disk)
		give()
	}
	var written []seal.Part
	if err == nil {
		written, m.DiskGone, err = namedOfDisk(d.written, d.holes, size)
	}
	if errors.Is(err, disk.ErrFragmented) {
		m.WholeDisk = true
		return seal.Digest(ctx, path)
	}
	if err != nil {
		return seal.Info{}, err
	}
	m.DiskHoles = true
	if m.DiskChanged, err = b.sums(ctx, path, written); err != nil {
		return seal.Info{}, err
	}
	return total(size, m.DiskChanged), nil
}

// sealMemory makes the memory durable, and notes what differs from its origin; all of it if there's none, or it's cut into too many pieces.
func (b *Building) sealMemory(ctx context.Context, path string, m *manifest, from Machine) (info seal.Info, err error) {
	if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o444)); err != nil { // as a template's: a driver that shares it opens it as each machine's user
		return seal.Info{}, err
	}
	if m.Whole {
		return seal.File(ctx, path)
	}
	info, m.Changed, err = b.changed(ctx, path, from)
	if errors.Is(err, disk.ErrFragmented) {
		m.Whole = true
		return seal.File(ctx, path)
	}
	return info, err
}

func (b *Building) sealState(ctx context.Context, path string, _ *manifest) (seal.Info, error) {
	if err := os.Chown(path, 0, 0); err != nil {
		return seal.Info{}, err
	}
	return seal.File(ctx, path)
}

func (b *Building) sealSessions(ctx context.Context, path string, _ *manifest) (seal.Info, error) {
	if err := durable.SyncTree(ctx, path); err != nil {
		return seal.Info{}, err
	}
	return seal.Tree(ctx, path)
}

// syncFile makes a file durable, and returns its length.
func syncFile(path string) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("write out %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// changed makes a clone durable and notes what differs from its origin. What was written is read while it's being written out, unless who wrote it has digested it; that it's
// all is known after that.
func (b *Building) changed(ctx context.Context, path string, from Machine) (info seal.Info, parts []seal.Part, err error) {
	written := b.Written
	var g errgroup.Group
	g.Go(func() error {
		_, err := syncFile(path)
		return err
	})
	if written.Parts != nil && written.Info.SHA256 == "" {
		written.Info, err = seal.Parts(ctx, path, written.Parts)
	}
	if err = errors.Join(err, g.Wait()); err != nil {
		return seal.Info{}, nil, err
	}
	if parts, err = b.differs(ctx, path, from); err != nil {
		return seal.Info{}, nil, err
	}
	if len(parts) > maxChanged {
		return seal.Info{}, nil, disk.ErrFragmented
	}
	if written.Parts != nil && len(written.Parts) <= maxChanged && covered(parts, written.Parts) {
		return written.Info, written.Parts, nil
	}
	info, err = seal.Parts(ctx, path, parts)
	return info, parts, err
}

// differs returns the parts of a memory that aren't its origin's. If that's gone they're those that are the memory's own, and those in which the snapshot that it began as
// a copy of differs: while btrfs moves blocks it says of own ones that they're shared.
func (b *Building) differs(ctx context.Context, path string, from Machine) ([]seal.Part, error) {
	o, give := b.store.origin(b.entry.Template, from)
	if give == nil {
		own, err := b.store.cfg.Own(ctx, path)
		return union(own, b.earlier), err
	}
	defer give()
	d, err := b.store.differing(ctx, path, o.Memory)
	return union(d.written, d.holes), err
}

// ready takes in what was published, as it would be after a restart.
func (b *Building) ready(dir string, bytes int64) error {
	m, digest, err := readManifest(dir)
	if err != nil {
		return err
	}
	e := &entry{Order: m.Order, Machine: m.Machine, state: Ready, dir: dir, digest: digest, manifest: m, bytes: bytes, files: proved(), disk: proved()}
	if e.seen, err = e.look(); err != nil {
		return err
	}
	b.store.mu.Lock()
	b.store.entries[m.Snapshot] = e
	b.store.mu.Unlock()
	b.store.cfg.Changed()
	return nil
}

// Fail says that it couldn't be made, until it's removed or this life ends.
func (b *Building) Fail(err error) {
	b.drop()
	e := peer.Public(err)
	if e.Code == space.CodeInternal {
		e = &space.Error{Code: space.CodeInternal, Message: "the snapshot could not be made; the operator's log has the cause"}
	}
	b.store.mu.Lock()
	b.entry.state, b.entry.err = Failed, e
	b.store.mu.Unlock()
	b.store.cfg.Changed()
}

// Abandon forgets it: whoever ordered it orders it again.
func (b *Building) Abandon() {
	b.drop()
	b.store.mu.Lock()
	if b.store.entries[b.entry.Snapshot] == b.entry {
		delete(b.store.entries, b.entry.Snapshot)
	}
	b.store.mu.Unlock()
	b.store.cfg.Changed()
}

// drop removes what there is, under its name as well: what has failed mustn't be found ready by the next life, in which it would end a suspend that the sandbox
// has long gone on from. What can't be removed is at the next Open, or by Remove.
func (b *Building) drop() {
	for _, dir := range []string{b.store.dirOf(b.entry.Snapshot, ""), b.dir} {
		if err := b.store.delete(dir); err != nil {
			slog.Error("what is left of a snapshot that wasn't made can't be removed", "snapshot", b.entry.Snapshot, "err", err)
		}
	}
}
