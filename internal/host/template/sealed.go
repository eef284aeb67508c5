package template

import (
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
)

// sealedShare is how much of the machine's memory templates may keep: a sixteenth. One that finds no room is cloned for each machine.
const sealedShare = 16

// share makes a snapshot's memory shared, if the driver can use that and there is room. The store's mu isn't held.
func (s *Store) share(b *base) {
	c := s.cfg.Driver.Capabilities()
	if !c.SealedMemory || c.SharedMemory {
		return
	}
	s.mu.Lock()
	need := b.m.Files[memoryName].Data
	room := s.sealedBytes+need <= totalMemory()/sealedShare
	if room {
		s.sealedBytes += need
	}
	s.mu.Unlock()
	if !room {
		slog.Info("a template's memory isn't shared: templates keep as much as they may", "template", b.m.Template)
		return
	}
	f, err := seal.Memory(b.file(memoryName))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.sealedBytes -= need
		slog.Warn("a template's memory can't be shared", "template", b.m.Template, "err", err)
		return
	}
	b.sealed = f
}

// unshare lets go of a snapshot's shared memory; machines that have it mapped keep it. mu is held.
func (s *Store) unshare(b *base) {
	if b.sealed == nil {
		return
	}
	b.sealed.Close()
	b.sealed = nil
	s.sealedBytes -= b.m.Files[memoryName].Data
}

func totalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
