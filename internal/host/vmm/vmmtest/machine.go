package vmmtest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
)

// enclosure makes a place for a machine, whose starts are recorded.
func (s *suite) enclosure(t *testing.T) (vmm.Enclosure, *recorder) {
	t.Helper()
	e := s.Enclosure(t)
	r := &recorder{Starter: e.Starter}
	e.Starter = r
	return e, r
}

// bootSpec is a cold start with files of its own in dir.
func (s *suite) bootSpec(t *testing.T, dir string, uid int) vmm.Boot {
	t.Helper()
	kernel := s.Kernel
	if s.Shape.VCPUs > 1 {
		kernel = cmp.Or(s.SMP, kernel)
	}
	return vmm.Boot{
		Shape: s.Shape, Kernel: kernel, Initrd: s.Initrd, Args: s.Args,
		Disk: clone(t, s.Disk, dir, "disk", uid), Memory: s.emptyMemory(t, dir, uid),
	}
}

// boot cold-starts a machine; its guest hasn't been talked to.
func (s *suite) boot(t *testing.T) *guest {
	t.Helper()
	e, _ := s.enclosure(t)
	dir := s.place(t)
	b := s.bootSpec(t, dir, e.UID)
	m, err := s.Driver.Boot(s.within(t), e, b)
	if err != nil {
		t.Fatal(err)
	}
	return s.guest(t, m, e, dir, b.Disk, b.Memory)
}

// loadSpec is a load with files of its own in dir.
func (s *suite) loadSpec(t *testing.T, from snapshot, dir string, uid int) vmm.Load {
	t.Helper()
	l := vmm.Load{Shape: s.Shape, State: from.state, Memory: from.memory, Disk: clone(t, from.disk, dir, "disk", uid), Manifest: from.manifest}
	if !s.Driver.Capabilities().SharedMemory {
		l.Memory = clone(t, from.memory, dir, "memory", uid)
		return l
	}
	if err := os.Chmod(from.memory, 0o444); err != nil {
		t.Fatal(err)
	}
	return l
}

// load starts a clone and makes its guest answer.
func (s *suite) load(t *testing.T, from snapshot) *guest {
	t.Helper()
	g, _ := s.loadAs(t, from, func(*vmm.Load) {})
	return g
}

// loadAs starts a clone that is loaded in a way of its own, and makes its guest answer.
func (s *suite) loadAs(t *testing.T, from snapshot, change func(*vmm.Load)) (*guest, *recorder) {
	t.Helper()
	e, r := s.enclosure(t)
	dir := s.place(t)
	l := s.loadSpec(t, from, dir, e.UID)
	change(&l)
	m, err := s.Driver.Load(s.within(t), e, l)
	if err != nil {
		t.Fatal(err)
	}
	g := s.guest(t, m, e, dir, l.Disk, from.memory)
	g.greet(true)
	return g, r
}

func (s *suite) guest(t *testing.T, m vmm.Machine, e vmm.Enclosure, dir, disk, mem string) *guest {
	g := &guest{Machine: m, s: s, t: t, dir: dir, disk: disk, mem: mem, e: e}
	t.Cleanup(g.end)
	return g
}

// end ends a machine that was started and wasn't let go of. If its check has failed it's told first what has become of the machine.
func (g *guest) end() {
	if g.released || g.Machine == nil {
		return
	}
	if g.t.Failed() {
		g.t.Logf("machine %s: %s", g.e.ID, g.fate())
	}
	if err := g.Kill(context.WithoutCancel(g.t.Context())); err != nil {
		g.t.Errorf("kill: %v", err)
	}
	g.Close()
}

// pause stops a guest that was quiesced and whose link was closed.
func (g *guest) pause() {
	g.t.Helper()
	g.quiesce()
	g.hangUp()
	if err := g.Pause(g.s.within(g.t)); err != nil {
		g.t.Fatalf("pause: %v", err)
	}
}

// save pauses a machine and writes a snapshot into dir. Its memory begins as a copy of what the machine was started with.
func (g *guest) save(dir string) snapshot {
	g.t.Helper()
	g.pause()
	return g.keep(dir)
}

// keep writes a snapshot of a paused machine into dir.
func (g *guest) keep(dir string) snapshot {
	g.t.Helper()
	return g.write(dir, g.mem, "")
}

// saveOver is a save whose memory begins as a copy of an earlier one's.
func (g *guest) saveOver(earlier snapshot, dir string) snapshot {
	g.t.Helper()
	g.pause()
	return g.write(dir, earlier.memory, earlier.name)
}

// write writes a snapshot whose memory begins as a copy of a file, or as nothing.
func (g *guest) write(dir, memory, earlier string) snapshot {
	g.t.Helper()
	snap := snapshot{name: NextID("snp_"), state: filepath.Join(dir, "state"), memory: filepath.Join(dir, "memory"), saved: time.Now()}
	if memory != "" {
		if err := Clone(memory, snap.memory, 0); err != nil {
			g.t.Fatal(err)
		}
	}
	to := vmm.Save{State: create(g.t, snap.state), Memory: create(g.t, snap.memory), Name: snap.name, Earlier: earlier}
	defer to.State.Close()
	defer to.Memory.Close()
	var err error
	if snap.manifest, err = save(g.s.within(g.t), g, to); err != nil {
		g.t.Fatalf("save: %v", err)
	}
	if g.disk != "" {
		snap.disk = filepath.Join(dir, "disk")
		if err := Clone(g.disk, snap.disk, 0); err != nil {
			g.t.Fatal(err)
		}
	}
	return snap
}

// goOn has a machine that was saved run again.
func (g *guest) goOn() {
	g.t.Helper()
	if err := g.Resume(g.s.within(g.t)); err != nil {
		g.t.Fatal(err)
	}
	g.greet(false)
}

// Save saves a paused machine and finishes at once.
func Save(ctx context.Context, m vmm.Machine, state, memory *os.File) (vmm.Manifest, error) {
	return save(ctx, m, vmm.Save{State: state, Memory: memory})
}

func save(ctx context.Context, m vmm.Machine, to vmm.Save) (vmm.Manifest, error) {
	manifest, finish, err := m.Save(ctx, to)
	if err != nil {
		return vmm.Manifest{}, err
	}
	_, err = finish(ctx)
	return manifest, err
}

// create opens a file for reading and writing, and makes it if it's missing.
func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
