package template

import (
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// sealedShare is how much of the machine's memory templates may keep: a sixteenth. One that finds no room is cloned for each machine.
const sealedShare = 16

// sealMemory copies a template's memory into a memfd that nobody can change any more, not even this process. All machines that are loaded
// from it map it privately and share its pages. A clone of the file per machine costs no less memory as soon as it's read, and twice the
// time: its pages come from the volume's image each time.
func sealMemory(path string) (*os.File, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("share a template's memory: %w", err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("template", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("share a template's memory: %w", err)
	}
	dst := os.NewFile(uintptr(fd), "memfd:template")
	err = sparse.Copy(dst, src)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		dst.Close()
		return nil, fmt.Errorf("share a template's memory: %w", err)
	}
	return dst, nil
}

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
	f, err := sealMemory(b.file(memoryName))
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
