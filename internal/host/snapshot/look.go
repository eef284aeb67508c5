package snapshot

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

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
		s.putAside(e, err)
	case err != nil:
	case now != e.seen[manifestName]:
		s.readAgain(e)
	}
	if _, err := os.Stat(e.file(DiskName)); errors.Is(err, fs.ErrNotExist) {
		s.tell(e, DiskName+" is missing", func() bool {
			e.state, e.err = Failed, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s is missing", e.Snapshot, DiskName)
			return true
		})
	}
}

// readAgain takes in a snapshot anew whose manifest was changed or exchanged.
func (s *Store) readAgain(e *entry) {
	if _, err := durable.ReadFile(e.file(manifestName), maxManifest); err != nil {
		return // for want of something else, perhaps
	}
	anew, err := read(e.dir)
	if err != nil {
		s.putAside(e, err)
		return
	}
	s.tell(e, "its manifest was changed or exchanged", func() bool {
		if e.loads > 0 || anew.digest == e.digest {
			return false
		}
		s.unshare(e, time.Now().Add(sharedIdle))
		s.entries[e.Snapshot] = anew
		return true
	})
}

// putAside forgets a snapshot that is gone or can't be read, and puts aside what is left of it, as the next life would.
func (s *Store) putAside(e *entry, why error) {
	forgotten := s.tell(e, why.Error(), func() bool {
		if e.loads > 0 {
			return false // next time
		}
		s.unshare(e, time.Now().Add(sharedIdle))
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
