package vmmtest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
	"github.com/space-platform/space/internal/host/vmm"
)

// checkSealed loads machines from one sealed memory, changes them, and saves one.
func checkSealed(t *testing.T, s *suite) {
	if !s.Driver.Capabilities().SealedMemory {
		return
	}
	sealed := seal(t, s.base.memory)
	a, b := s.loadSealed(t, s.base, sealed), s.loadSealed(t, s.base, sealed)
	a.sh("echo a >/run/memory; sync")
	b.sh("echo b >/run/memory; sync")
	for want, g := range map[string]*guest{"a": a, "b": b} {
		if out := g.sh("cat /run/memory"); out != want {
			t.Errorf("clone %s has %q", want, out)
		}
	}
	if out := s.load(t, a.save(s.place(t))).sh("cat /run/memory"); out != "a" {
		t.Errorf("a clone of a clone has %q", out)
	}
	if out := s.loadSealed(t, s.base, sealed).sh("cat /run/memory"); out != "base" {
		t.Errorf("a third clone has %q: the snapshot was written to", out)
	}
}

// loadSealed starts a clone whose memory is one for all.
func (s *suite) loadSealed(t *testing.T, from snapshot, sealed *os.File) *guest {
	t.Helper()
	g, _ := s.loadAs(t, from, func(l *vmm.Load) { l.Memory, l.Sealed = "", sealed })
	return g
}

// seal copies a file into a memfd that nobody can change.
func seal(t *testing.T, path string) *os.File {
	t.Helper()
	src, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("sealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd:sealed")
	t.Cleanup(func() { f.Close() })
	if err := sparse.Copy(f, src); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	return f
}
