package template

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
)

// sealedShare is how much of the machine's memory templates' shared memories may become together: an eighth. One that finds no room, there or beside what has been promised to
// sandboxes, is cloned for each machine.
const sealedShare = 8

// shareAgain is how long after a try in vain to share a memory another one is made, when a machine is loaded from it.
const shareAgain = 30 * time.Second

// share makes a snapshot's memory shared, if the driver can use that and there is room. The store's mu isn't held.
func (s *Store) share(b *base) {
	if !s.shares() {
		return
	}
	b.use.RLock() // its files stay
	defer b.use.RUnlock()
	s.mu.Lock()
	if b.sealed != nil || b.sharing {
		s.mu.Unlock()
		return
	}
	b.sharing, b.tried = true, time.Now()
	need := b.m.Size.MemoryBytes
	room := s.sealedBytes+need <= totalMemory()/sealedShare
	if room {
		s.sealedBytes += need
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.sharing = false
	}()
	if !room {
		slog.Info("a template's memory isn't shared: templates share as much as they may", "template", b.m.Template)
		return
	}
	f, letGo, err := seal.Memory(b.file(memoryName), s.cfg.Promises.Share)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, seal.ErrUnpromised):
		s.sealedBytes -= need
		slog.Info("a template's memory isn't shared", "template", b.m.Template, "err", err)
	case err != nil:
		s.sealedBytes -= need
		slog.Warn("a template's memory can't be shared", "template", b.m.Template, "err", err)
	default:
		b.sealed, b.letGo = f, letGo
	}
}

// shares tells whether the driver's machines share a memory only if it's a sealed one.
func (s *Store) shares() bool {
	c := s.cfg.Driver.Capabilities()
	return c.SealedMemory && !c.SharedMemory
}

// shareLater tries again, in the background, to share a memory for which there was no room. mu is held.
func (s *Store) shareLater(b *base) {
	if b.sealed == nil && !b.sharing && !s.closed && s.shares() && time.Since(b.tried) >= shareAgain {
		s.builds.Go(func() { s.share(b) })
	}
}

// unshare lets go of a snapshot's shared memory; machines that have it mapped keep it, and what it was promised. mu is held.
func (s *Store) unshare(b *base) {
	if b.sealed == nil {
		return
	}
	b.sealed.Close()
	b.letGo()
	b.sealed, b.letGo = nil, nil
	s.sealedBytes -= b.m.Size.MemoryBytes
}

func totalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
