package snapshot

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/space-platform/space/internal/host/seal"
)

// How the memory of a snapshot is shared by the machines that are loaded from it, where a driver needs a memfd for that.
const (
	sharedLoads = 2               // from this load on: the first one may be the only one
	sharedIdle  = 2 * time.Minute // without a load, and it's let go of; the machines keep it
	sharedPart  = 16              // of the node's memory, this part for all snapshots together
)

// shared is a snapshot's memory in a memfd. The entry's once makes it; the store's mu guards the rest.
type shared struct {
	loads int       // so far
	last  time.Time // when it was loaded last
	file  *os.File  // nil: it isn't shared
	letGo func()    // gives back what that was promised
	made  bool      // or tried
}

// share returns the snapshot's memory as all its machines can map it; nil if each needs a copy of its own. The caller has borrowed the entry.
func (s *Store) share(e *entry) *os.File {
	if !s.cfg.Seal || e.Kind != Full {
		return nil
	}
	e.sharing.Lock() // one makes it, others wait for it
	defer e.sharing.Unlock()
	s.mu.Lock()
	e.shared.loads++
	e.shared.last = time.Now()
	need := e.memoryBytes()
	if e.shared.made || e.shared.loads < sharedLoads || s.sharedBytes+need > s.cfg.MemoryBytes/sharedPart {
		defer s.mu.Unlock()
		return e.shared.file
	}
	e.shared.made = true
	s.sharedBytes += need
	s.mu.Unlock()
	f, letGo, err := seal.Memory(e.file(MemoryName), s.cfg.Promises.Share)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		slog.Warn("a snapshot's memory can't be shared", "snapshot", e.Snapshot, "err", err)
		s.sharedBytes -= need
		e.shared.made = !errors.Is(err, seal.ErrUnpromised) // for which there may be room next time
		return nil
	}
	e.shared.file, e.shared.letGo = f, letGo
	return f
}

// memoryBytes bounds what the memory takes when it's shared.
func (e *entry) memoryBytes() int64 { return e.manifest.Files[MemoryName].Bytes }

// unshare lets go of what nobody has loaded for a while, or of everything. mu is held.
func (s *Store) unshare(e *entry, now time.Time) {
	if e.shared.file == nil || e.loads > 0 || now.Sub(e.shared.last) < sharedIdle {
		return
	}
	e.shared.file.Close()
	e.shared.letGo()
	e.shared = shared{}
	s.sharedBytes -= e.memoryBytes()
}
