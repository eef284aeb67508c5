package snapshot

import (
	"context"
	"log/slog"

	"github.com/space-platform/space/internal/host/disk"
)

// maxPieces is in how many pieces a memory may lie for another one to begin as a copy of it. Each snapshot cuts it into more, and all of them are looked at each time: some
// milliseconds for each thousand.
const maxPieces = 1 << 15

// Earlier returns the newest full snapshot of the same execution, and its memory, for this one's to begin as a copy of it: then it takes only what was written since. It stays until
// give is called. A nil give: there's none, or it's damaged, or in too many pieces; then the memory begins as a copy of what the machine was loaded from. Of one that
// was booted, whole, it begins as nothing.
func (b *Building) Earlier(ctx context.Context, whole bool) (id, memory string, give func()) {
	last, give := b.store.newestOf(b.entry, func(e *entry) bool { return e.Kind == Full && e.Whole == whole })
	if last == nil {
		return "", "", nil
	}
	if err := b.store.fitsEarlier(ctx, last); err != nil {
		slog.Warn("a memory is saved without its earlier one", "snapshot", b.entry.Snapshot, "earlier", last.Snapshot, "err", err)
		give()
		return "", "", nil
	}
	b.earlier = last.manifest.Changed
	return last.Snapshot, last.file(MemoryName), give
}

// fitsEarlier says why another memory can't begin as a copy of a snapshot's. Of the rest of it nothing is read: the disk may be large, and the sandbox's owner waits.
func (s *Store) fitsEarlier(ctx context.Context, e *entry) error {
	err := e.checkFile(MemoryName)
	if err == nil {
		err = e.files.orElse(func() error { return e.verifyMemory(ctx, s) })
	}
	if err != nil {
		return err
	}
	n := 0
	if err := s.cfg.Extents(ctx, e.file(MemoryName), func(disk.Extent) { n++ }); err != nil {
		return err
	}
	if n > maxPieces {
		return disk.ErrFragmented
	}
	return nil
}

// newestOf returns the newest snapshot of the execution that one is made of that is ready and fit, which stays until give is called; nil: there's none.
func (s *Store) newestOf(of *entry, fit func(*entry) bool) (newest *entry, give func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.state == Ready && !e.removing && e.Route == of.Route && fit(e) && (newest == nil || e.At.After(newest.At)) {
			newest = e
		}
	}
	if newest == nil {
		return nil, nil
	}
	newest.loads++
	return newest, func() {
		s.mu.Lock()
		newest.loads--
		s.mu.Unlock()
	}
}
