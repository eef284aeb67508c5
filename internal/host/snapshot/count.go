package snapshot

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
)

// What a snapshot counts are the blocks that it holds and that no template and no older snapshot holds, so that each one counts once, with the oldest that
// holds it, whatever clones there are. When that goes they count with the next one. Sandboxes hold blocks of snapshots as well; theirs count with their disks.

// measure counts all snapshots, oldest first.
func (s *Store) measure(ctx context.Context) {
	s.measuring.Lock()
	defer s.measuring.Unlock()
	entries := slices.DeleteFunc(s.Reports(), func(r Report) bool { return r.State != Ready })
	slices.SortFunc(entries, func(a, b Report) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Snapshot, b.Snapshot)) })
	l, counts := newLedger(), map[string]int64{}
	l.templates(ctx, s.cfg, "*")
	for _, r := range entries {
		counts[r.Snapshot] = l.tree(ctx, s.cfg, s.dirOf(r.Snapshot, ""))
	}
	if ctx.Err() == nil {
		s.exchange(ctx, l, counts)
	}
}

// exchange has a new ledger be the store's, with those snapshots, too, that were counted by the old one and weren't ready when the new one was begun.
func (s *Store) exchange(ctx context.Context, l *ledger, counts map[string]int64) {
	s.counting.Lock()
	s.younger = slices.DeleteFunc(s.younger, func(id string) bool {
		_, counted := counts[id]
		return counted || !s.coming(id)
	})
	for _, id := range s.younger { // it may be about to get its name: what counted by the other one counts no more by this
		counts[id] = l.tree(ctx, s.cfg, s.dirOf(id, buildSuffix)) + l.tree(ctx, s.cfg, s.dirOf(id, ""))
	}
	s.ledger = l
	changed := s.setBytes(counts)
	s.counting.Unlock()
	if changed {
		s.cfg.Changed()
	}
}

// coming reports whether a snapshot is ready or is about to be.
func (s *Store) coming(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[id]
	return ok && e.state != Failed
}

func (s *Store) setBytes(counts map[string]int64) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range counts {
		if e, ok := s.entries[id]; ok && e.state == Ready && e.bytes != n {
			e.bytes, changed = n, true
		}
	}
	return changed
}

// count counts a snapshot that is about to be there, the youngest.
func (s *Store) count(ctx context.Context, o Order, dir string) int64 {
	s.counting.Lock()
	defer s.counting.Unlock()
	if !slices.Contains(s.younger, o.Snapshot) {
		s.younger = append(s.younger, o.Snapshot)
	}
	s.ledger.templates(ctx, s.cfg, space.HostLabel(o.Template)+"-*") // it may be newer than the last measurement
	return s.ledger.tree(ctx, s.cfg, dir)
}

// templates has the templates count whose directories have names like that, unless they do already.
func (l *ledger) templates(ctx context.Context, c Config, pattern string) {
	dirs, err := filepath.Glob(filepath.Join(c.Templates, pattern))
	if err != nil {
		slog.Warn("can't list templates", "err", err) // then snapshots count more, not less
	}
	for _, dir := range dirs {
		if c.Templates != "" && !l.known[dir] {
			l.tree(ctx, c, dir)
			l.known[dir] = true
		}
	}
}

// tree has all files in a directory count, and returns how many bytes of them didn't yet. What is gone meanwhile doesn't count, and what can't be looked at
// counts with all that it takes.
func (l *ledger) tree(ctx context.Context, c Config, dir string) (sum int64) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular():
			sum += l.file(ctx, c, path)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		slog.Warn("can't measure a directory whole", "dir", dir, "err", err)
	}
	return sum
}

func (l *ledger) file(ctx context.Context, c Config, path string) (sum int64) {
	limited, cancel := context.WithTimeout(ctx, measurePatience)
	defer cancel()
	err := c.Extents(limited, path, func(e disk.Extent) {
		switch {
		case e.Place < 0:
			sum += e.Bytes
		case !e.Packed:
			sum += l.take(e.Place, e.Bytes)
		case l.take(e.Place, blockBytes) > 0: // how many blocks it has isn't known: it counts with what is in it, by its first one
			sum += e.Bytes
		}
	})
	switch {
	case err == nil || ctx.Err() != nil:
		return sum
	case errors.Is(err, os.ErrNotExist):
		return 0
	case !errors.Is(err, disk.ErrFragmented):
		slog.Warn("can't measure a file", "path", path, "err", err)
	}
	n, err := disk.Allocated(path)
	if err != nil {
		return sum
	}
	return n
}
