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

// lookAgain has the reports say what has become of a snapshot: it's gone, its manifest can't be read or is another one, it has no disk any more, or another file isn't what
// was there. What can't be looked at now is believed to be there. What a file holds is found when it's to be loaded: then it's read.
func (s *Store) lookAgain(e *entry) {
	now, err := seal.InodeOf(e.file(manifestName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.putAside(e, errors.New(manifestName+" is missing"))
		return
	case err != nil:
	case now != e.seen[manifestName]:
		s.readAgain(e)
		return
	}
	if _, err := os.Stat(e.file(DiskName)); errors.Is(err, fs.ErrNotExist) {
		s.tell(e, DiskName+" is missing", func() bool {
			e.state, e.err = Failed, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s is missing", e.Snapshot, DiskName)
			return true
		})
		return
	}
	s.setDamage(e, e.lookAtFiles())
	s.keepFindings(e)
}

// lookAtFiles says what is wrong with a snapshot's files, without reading them, or what was found when they were read.
func (e *entry) lookAtFiles() error {
	if err := errors.Join(e.checkFile(DiskName), e.disk.found()); err != nil {
		return e.damaged(err)
	}
	if e.Kind == Disk {
		return nil
	}
	if err := errors.Join(e.checkFile(MemoryName), e.checkFile(StateName), e.checkSessions(), e.files.found()); err != nil {
		return e.memoryDamaged(err)
	}
	return nil
}

// setDamage has the reports say what is wrong with a snapshot that is there, or that nothing is.
func (s *Store) setDamage(e *entry, err error) {
	what := "it's as it was again"
	if err != nil {
		what = err.Error()
	}
	s.tell(e, what, func() bool {
		news := (err == nil) != (e.err == nil)
		e.err = err
		return news
	})
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
		if e.loads > 0 {
			return false // next time
		}
		s.unshare(e, time.Now().Add(sharedIdle))
		s.entries[e.Snapshot] = anew
		return true
	})
}

// putAside gives up a snapshot that can't be read, and puts aside what is left of it, as the next life would. One of which nothing is left is forgotten.
func (s *Store) putAside(e *entry, why error) {
	_, err := os.Stat(e.dir)
	gone := errors.Is(err, fs.ErrNotExist)
	given := s.tell(e, why.Error(), func() bool {
		if e.loads > 0 {
			return false // next time
		}
		s.unshare(e, time.Now().Add(sharedIdle))
		if gone {
			delete(s.entries, e.Snapshot)
		} else {
			e.putAside(why)
		}
		return true
	})
	if !given || gone {
		return
	}
	if err := os.Rename(e.dir, e.dir+unreadableSuffix); err != nil {
		slog.Warn("what is left of a snapshot can't be put aside", "dir", e.dir, "err", err)
	}
}

// putAside makes it one that is reported and can't be loaded, and whose directory is nobody's any more. mu is held.
func (e *entry) putAside(why error) {
	e.state, e.aside = Failed, true
	e.err = space.Errorf(space.CodeSnapshotUnusable, "snapshot %s is damaged: %s can't be used: %v; what is left of it was put aside on the node, for its operator", e.Snapshot, manifestName, why)
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
