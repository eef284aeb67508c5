package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
)

// Snapshot is what a machine is loaded from, or boots from.
type Snapshot struct {
	Report
	Disk     string   // files
	State    string   // "" of a disk snapshot
	Memory   string   // as State
	Sealed   *os.File // the memory once more, shared by all machines; nil if it isn't
	Sessions string   // a directory; "": none
	Size     rootfs.Size
	VMM      vmm.Manifest
}

// Borrow returns a snapshot if it's the one that has a digest, and its files are what the manifest says: those that matter for a boot from its disk, or all.
// They stay until give is called. A disk is what its manifest says, or isn't lent; that it's another manifest than the one that has the digest doesn't matter to who boots
// from it: he has been told. Errors are space.Errors.
func (s *Store) Borrow(id, digest string, boot bool) (_ Snapshot, give func(), err error) {
	s.mu.Lock()
	e, err := s.loadable(id)
	if err == nil && e.digest != digest {
		if err = e.another(digest); boot {
			slog.Warn("a disk is booted though its snapshot isn't the one that was made", "snapshot", id, "err", err)
			err = nil
		}
	}
	if err != nil {
		s.mu.Unlock()
		return Snapshot{}, nil, err
	}
	e.loads++
	out := e.snapshot()
	s.mu.Unlock()
	give = func() {
		s.mu.Lock()
		e.loads--
		s.mu.Unlock()
	}
	if err := s.check(e, boot); err != nil {
		give()
		slog.Error("a snapshot is damaged", "snapshot", id, "err", err)
		s.lookAgain(e)
		return Snapshot{}, nil, err
	}
	if !boot {
		out.Sealed = s.share(e)
	}
	return out, give, nil
}

// another is why a snapshot isn't loaded that should have a digest.
func (e *entry) another(digest string) error {
	return space.Errorf(space.CodeSnapshotUnusable, "snapshot %s isn't the one that was made: its manifest has the digest %s, and %s was recorded; its disk can be booted if it's as that manifest says",
		e.Snapshot, e.digest, digest)
}

// loadable returns an entry that is ready. mu is held.
func (s *Store) loadable(id string) (*entry, error) {
	e, ok := s.entries[id]
	switch {
	case !ok || e.removing:
		return nil, space.Errorf(space.CodeSnapshotUnusable, "the node has no snapshot %s", id)
	case e.state == Failed && space.CodeOf(e.err) == space.CodeSnapshotUnusable: // it was ready
		return nil, e.err
	case e.state != Ready:
		return nil, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is %s", id, e.state)
	}
	return e, nil
}

// snapshot is what is lent. mu is held.
func (e *entry) snapshot() Snapshot {
	out := Snapshot{Report: e.report(), Disk: e.file(DiskName), Size: e.Order.Size}
	if e.Kind == Full {
		out.State, out.Memory, out.VMM = e.file(StateName), e.file(MemoryName), *e.manifest.VMM
	}
	if e.Machine.Sessions > 0 {
		out.Sessions = e.file(SessionsName)
	}
	return out
}

func (e *entry) file(name string) string { return filepath.Join(e.dir, name) }

// look notes which files there are. An error says which aren't.
func (e *entry) look() (seen map[string]seal.Inode, err error) {
	seen = map[string]seal.Inode{}
	for _, name := range append(e.Kind.files(), manifestName) {
		i, missing := seal.InodeOf(e.file(name))
		if err = errors.Join(err, missing); missing == nil {
			seen[name] = i
		}
	}
	return seen, errors.Join(err, e.lookAtSessions(seen))
}

// check compares the files with the manifest, and with those that were there when it was read. What is fine but for memory, state and sessions can be booted.
func (s *Store) check(e *entry, boot bool) error {
	err := errors.Join(e.checkFile(manifestName), e.checkFile(DiskName))
	if err == nil {
		err = e.disk.verify(e.dataBytes(), func(ctx context.Context) error { return e.verifyDisk(ctx, s) })
	}
	if err != nil {
		return unusable(err, e.damaged)
	}
	if boot || e.Kind == Disk {
		return nil
	}
	err = errors.Join(e.checkFile(MemoryName), e.checkFile(StateName), e.checkSessions())
	if err == nil {
		err = e.files.verify(e.dataBytes(), func(ctx context.Context) error { return e.verify(ctx, s) })
	}
	if err != nil {
		return unusable(err, e.memoryDamaged)
	}
	return nil
}

func (e *entry) damaged(err error) error {
	return space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s", e.Snapshot, err)
}

func (e *entry) memoryDamaged(err error) error {
	return space.Errorf(space.CodeSnapshotUnusable, "the memory in snapshot %s is damaged; its disk can still be booted: %s", e.Snapshot, err)
}

// unusable is why a snapshot isn't loaded: its damage, or that it couldn't be read in time.
func unusable(err error, damage func(error) error) error {
	if space.CodeOf(err) == space.CodeTimeout {
		return err
	}
	return damage(err)
}

// checkSessions looks at the sessions' files without reading them.
func (e *entry) checkSessions() error {
	now := map[string]seal.Inode{}
	if err := e.lookAtSessions(now); err != nil {
		return fmt.Errorf("%s can't be looked at", SessionsName)
	}
	for name, i := range now {
		if e.seen[name] != i {
			return fmt.Errorf("%s was changed or exchanged", name)
		}
	}
	for name := range e.seen {
		if _, there := now[name]; !there && strings.HasPrefix(name, SessionsName) {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

// lookAtSessions notes which files of sessions there are.
func (e *entry) lookAtSessions(seen map[string]seal.Inode) error {
	if e.Machine.Sessions == 0 {
		return nil
	}
	return filepath.WalkDir(e.file(SessionsName), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(e.dir, path)
		if err != nil {
			return err
		}
		seen[name], err = seal.InodeOf(path)
		return err
	})
}

// checkFile looks at a file without reading it.
func (e *entry) checkFile(name string) error {
	now, err := seal.InodeOf(e.file(name))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is missing", name)
	}
	if err != nil {
		return fmt.Errorf("%s can't be looked at", name)
	}
	if want, ok := e.manifest.Files[name]; ok && now.Bytes != want.Bytes {
		return fmt.Errorf("%s has %d bytes, the manifest says %d", name, now.Bytes, want.Bytes)
	}
	if now != e.seen[name] {
		return fmt.Errorf("%s was changed or exchanged", name)
	}
	return nil
}

// proof is that files hold what the manifest says. It's made once in a life of the daemon; what is seen of the files afterwards says that they're still those.
type proof struct {
	mu     sync.Mutex
	done   bool
	err    error
	before error // what an earlier life found; until it's done
}

func proved() proof { return proof{done: true} }

// found is what reading them has brought to light, if they were read. It doesn't wait for who reads them now.
func (p *proof) found() error {
	err, _ := p.known()
	return err
}

// known is found, and whether nobody reads them now.
func (p *proof) known() (err error, ok bool) {
	if !p.mu.TryLock() {
		return nil, false
	}
	defer p.mu.Unlock()
	if !p.done {
		return p.before, true
	}
	return p.err, true
}

// errUnread says that nothing is known of what a file holds.
var errUnread = errors.New("can't be read")

// verify reads the files, unless that was done. If it's done in time its result stays, but for what couldn't be read: that may be for want of something else.
func (p *proof) verify(bytes int64, read func(context.Context) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ReadTime(bytes))
	defer cancel()
	err := read(ctx)
	if ctx.Err() != nil {
		return space.Errorf(space.CodeTimeout, "it couldn't be read within %s", ReadTime(bytes))
	}
	p.done, p.err = !errors.Is(err, errUnread), err
	return err
}

// orElse returns what is known; if nothing is, what read says, which is about a part of the files.
func (p *proof) orElse(read func() error) error {
	p.mu.Lock()
	done, err, before := p.done, p.err, p.before
	p.mu.Unlock()
	switch {
	case done:
		return err
	case before != nil:
		return before
	}
	return read()
}

// How long files may take to be read and made durable.
const (
	readLeast = 2 * time.Minute
	readRate  = 16 << 20 // bytes in a second, at the least: a disk on which everybody is
)

// ReadTime is how long so many bytes may take to be read, or written.
func ReadTime(bytes int64) time.Duration {
	return readLeast + time.Duration(bytes/readRate)*time.Second
}

// dataBytes are those that the digests are of.
func (e *entry) dataBytes() int64 {
	n := int64(0)
	for _, f := range e.manifest.Files {
		n += f.Data
	}
	return n
}

// verify reads what a machine is loaded from, but for the disk, and compares it with the manifest.
func (e *entry) verify(ctx context.Context, s *Store) error {
	state, err := seal.Digest(ctx, e.file(StateName))
	if err := e.compare(StateName, state, err); err != nil {
		return err
	}
	if err := e.verifyMemory(ctx, s); err != nil {
		return err
	}
	if _, named := e.manifest.Files[SessionsName]; !named || e.Machine.Sessions == 0 {
		return nil
	}
	sessions, err := seal.Tree(ctx, e.file(SessionsName))
	return e.compare(SessionsName, sessions, err)
}

// verifyDisk does the same for the disk. One of whose digest the manifest says nothing was made by an older version.
func (e *entry) verifyDisk(ctx context.Context, s *Store) error {
	if e.manifest.Files[DiskName].SHA256 == "" {
		return nil
	}
	if e.manifest.WholeDisk {
		info, err := seal.Digest(ctx, e.file(DiskName))
		return e.compare(DiskName, info, err)
	}
	for _, p := range e.manifest.DiskChanged {
		info, err := seal.Parts(ctx, e.file(DiskName), []seal.Part{p.Part})
		switch {
		case err != nil:
			return fmt.Errorf("%s %w", DiskName, errUnread)
		case info.SHA256 != p.SHA256:
			return fmt.Errorf("%s isn't what was saved, from byte %d on", DiskName, p.Offset)
		}
	}
	o, give := s.origin(e.Template, e.manifest.diskFrom())
	if give != nil {
		defer give()
	}
	return s.verifyRest(ctx, e, DiskName, o.Disk, func(d difference) (strange []seal.Part, ok bool) {
		gone := d.gone
		if e.manifest.DiskHoles {
			gone = d.holes
		}
		holes, err := named(gone)
		strange = union(outside(d.written, parts(e.manifest.DiskChanged)), outside(gone, e.manifest.DiskGone))
		return strange, err == nil && covered(e.manifest.DiskGone, holes)
	})
}

// verifyMemory reads the memory, or those parts of it that aren't its origin's.
func (e *entry) verifyMemory(ctx context.Context, s *Store) error {
	if e.Whole {
		info, err := seal.Digest(ctx, e.file(MemoryName))
		return e.compare(MemoryName, info, err)
	}
	info, err := seal.Parts(ctx, e.file(MemoryName), e.manifest.Changed)
	if err := e.compare(MemoryName, info, err); err != nil {
		return err
	}
	o, give := s.origin(e.Template, e.Machine)
	if give != nil {
		defer give()
	}
	return s.verifyRest(ctx, e, MemoryName, o.Memory, func(d difference) (strange []seal.Part, ok bool) {
		return outside(union(d.written, d.holes), e.manifest.Changed), true
	})
}

// verifyRest looks at how a file differs from its origin, as long as that's there. judge says where it isn't known to differ, and whether it differs where it must. What it
// doesn't share there must be the same all the same: btrfs may be moving blocks, or have moved those of one of them.
func (s *Store) verifyRest(ctx context.Context, e *entry, name, origin string, judge func(difference) (strange []seal.Part, ok bool)) error {
	if origin == "" {
		return nil
	}
	d, err := s.differing(ctx, e.file(name), origin)
	switch {
	case errors.Is(err, disk.ErrFragmented), errors.Is(err, os.ErrNotExist): // of which nothing can be said
		return nil
	case err != nil:
		return fmt.Errorf("%s %w", name, errUnread)
	}
	strange, ok := judge(d)
	if ok {
		ok, err = seal.Same(ctx, e.file(name), origin, clip(strange, e.manifest.Files[name].Bytes))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s %w", name, errUnread)
	case !ok:
		return fmt.Errorf("%s isn't what was saved: parts of it are neither its own nor those of what it was made from", name)
	}
	return nil
}

// compare says whether a file holds what was saved.
func (e *entry) compare(name string, got seal.Info, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s %w", name, errUnread)
	case got.SHA256 != e.manifest.Files[name].SHA256:
		return fmt.Errorf("%s isn't what was saved", name)
	}
	return nil
}
