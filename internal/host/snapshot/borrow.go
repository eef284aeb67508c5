package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	space "github.com/space-platform/space"
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
// They stay until give is called. Errors are space.Errors.
func (s *Store) Borrow(id, digest string, boot bool) (_ Snapshot, give func(), err error) {
	s.mu.Lock()
	e, err := s.loadable(id, digest)
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
	if err := e.check(boot); err != nil {
		give()
		slog.Error("a snapshot is damaged", "snapshot", id, "err", err)
		return Snapshot{}, nil, err
	}
	if !boot {
		out.Sealed = s.share(e)
	}
	return out, give, nil
}

// loadable returns an entry that is ready and has a digest. mu is held.
func (s *Store) loadable(id, digest string) (*entry, error) {
	e, ok := s.entries[id]
	switch {
	case !ok || e.removing:
		return nil, space.Errorf(space.CodeSnapshotUnusable, "the node has no snapshot %s", id)
	case e.state != Ready:
		return nil, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is %s", id, e.state)
	case e.digest != digest:
		return nil, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s isn't the one that was made: its manifest has the digest %s, and %s was recorded", id, e.digest, digest)
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
	return seen, err
}

// check compares the files with the manifest, and with those that were there when it was read. What is fine but for memory and state can be booted.
func (e *entry) check(boot bool) error {
	if err := errors.Join(e.checkFile(manifestName), e.checkFile(DiskName)); err != nil {
		return space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s", e.Snapshot, err)
	}
	if boot || e.Kind == Disk {
		return nil
	}
	err := errors.Join(e.checkFile(MemoryName), e.checkFile(StateName))
	if err == nil {
		err = e.verified()
	}
	if err != nil {
		return space.Errorf(space.CodeSnapshotUnusable, "the memory in snapshot %s is damaged; its disk can still be booted: %s", e.Snapshot, err)
	}
	return nil
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

// verify reads what a machine is loaded from and compares it with the manifest.
func (e *entry) verify() error {
	digest, err := seal.Digest(e.file(StateName))
	if err != nil {
		return fmt.Errorf("%s can't be read", StateName)
	}
	if digest != e.manifest.Files[StateName].SHA256 {
		return fmt.Errorf("%s isn't what was saved", StateName)
	}
	want := e.manifest.Files[MemoryName].SHA256
	if e.Whole {
		digest, err = seal.Digest(e.file(MemoryName))
	} else {
		var info seal.Info
		info, err = seal.Parts(e.file(MemoryName), e.manifest.Changed)
		digest = info.SHA256
	}
	if err != nil {
		return fmt.Errorf("%s can't be read", MemoryName)
	}
	if digest != want {
		return fmt.Errorf("%s isn't what was saved", MemoryName)
	}
	return nil
}
