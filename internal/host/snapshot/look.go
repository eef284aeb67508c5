package snapshot

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/seal"
)

// lookAtAll looks whether the snapshots that are ready are still there, and tells what the next life of the daemon would find: nobody may want to load one for months.
func (s *Store) lookAtAll() {
	s.mu.Lock()
	var ready []*entry
	for _, e := range s.entries {
		if e.state == Ready && !e.removing {
			ready = append(ready, e)
		}
	}
	s.mu.Unlock()
	for _, e := range ready {
		s.lookAgain(e)
	}
}

// lookAgain has the reports say what has become of a snapshot: it's gone, its manifest is another one, or it has no disk any more. What can't be looked at now is
// believed to be there. Files that were changed are found when they're to be loaded: then they're read.
func (s *Store) lookAgain(e *entry) {
	now, err := seal.InodeOf(e.file(manifestName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.miss(e)
		return
	case err != nil:
		return
	case now != e.seen[manifestName]:
		text, err := durable.ReadFile(e.file(manifestName), maxManifest)
		if err != nil {
			return
		}
		digest := seal.ManifestDigest(text)
		s.tell(e, "its manifest was changed or exchanged", func() bool {
			was := e.digest
			e.digest = digest
			return was != digest
		})
	}
	if _, err := os.Stat(e.file(DiskName)); errors.Is(err, fs.ErrNotExist) {
		s.tell(e, DiskName+" is missing", func() bool {
			e.state, e.err = Failed, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s is missing", e.Snapshot, DiskName)
			return true
		})
	}
}

// miss forgets a snapshot that is gone. What is left without a manifest is put aside, as by the next life.
func (s *Store) miss(e *entry) {
	forgotten := s.tell(e, "it's gone from the node", func() bool {
		delete(s.entries, e.Snapshot)
		return true
	})
	if !forgotten {
		return
	}
	if err := os.Rename(e.dir, e.dir+unreadableSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("what is left of a snapshot can't be put aside", "dir", e.dir, "err", err)
	}
}

// tell changes an entry that is neither being removed nor another one by now. change reports whether that was news.
func (s *Store) tell(e *entry, what string, change func() bool) (news bool) {
	s.mu.Lock()
	news = s.entries[e.Snapshot] == e && e.state == Ready && !e.removing && change()
	s.mu.Unlock()
	if news {
		slog.Error("a snapshot isn't what it was", "snapshot", e.Snapshot, "why", what)
		s.cfg.Changed()
	}
	return news
}
