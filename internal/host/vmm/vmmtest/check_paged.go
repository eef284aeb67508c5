package vmmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// checkPaged is a clone's life with memory that comes page by page: what it has, what its snapshots have that are made of pages it has touched, changed,
// and never seen, and that another life of the daemon finds it again.
func checkPaged(t *testing.T, s *suite) {
	if !s.Driver.Capabilities().PagedMemory {
		return
	}
	// What is in memory and on no disk, much of it never to be touched before it's saved.
	const fill = "head -c 8000000 /dev/urandom >/run/first; md5sum </run/first"
	g := s.load(t, s.base)
	first := g.sh(fill)
	base := g.save(s.place(t))
	g.end()
	g.released = true
	set := filepath.Join(s.place(t), "working-set")

	a := s.loadPaged(t, base, set)
	b := s.loadPaged(t, base, set) // while the first one's is being recorded
	a.sh("echo a >/run/memory; head -c 1000000 /dev/urandom >/run/second")
	second := a.sh("md5sum </run/second")
	b.sh("echo b >/run/memory")
	if out := b.sh("md5sum </run/first; cat /run/memory /root/file"); out != first+"\nb\nbase" {
		t.Errorf("a second clone has %q, want %s, b and base", out, first)
	}
	const sums = "md5sum </run/first; md5sum </run/second; cat /run/memory"
	saved := a.save(s.place(t)) // it hasn't read most of the first file
	if out := s.load(t, saved).sh(sums); out != first+"\n"+second+"\na" {
		t.Errorf("a clone of a clone, mapped, has %q, want %s, %s, a", out, first, second)
	}
	// Another life of the daemon finds it, and saves once more what has changed since it was loaded.
	a = a.recover()
	if err := a.Resume(s.within(t)); err != nil {
		t.Fatal(err)
	}
	a.greet(false)
	a.sh("echo later >/run/memory")
	again := a.save(s.place(t))
	want := first + "\n" + second + "\nlater"
	if out := s.loadPaged(t, again, "").sh(sums); out != want {
		t.Errorf("a clone of the second snapshot has %q, want %q", out, want)
	}
	if out := s.load(t, again).sh(sums); out != want {
		t.Errorf("a clone of the second snapshot, mapped, has %q, want %q", out, want)
	}
	s.awaitSet(t, base, set)
	if out := s.loadPaged(t, base, set).sh("md5sum </run/first; cat /root/file"); out != first+"\nbase" {
		t.Errorf("a clone with a working set has %q, want %s and base", out, first)
	}
}

// loadPaged starts a clone whose memory comes page by page.
func (s *suite) loadPaged(t *testing.T, from snapshot, set string) *guest {
	t.Helper()
	g, _ := s.loadAs(t, from, func(l *vmm.Load) { l.Pages = &vmm.Pages{WorkingSet: set, Snapshot: from.state} })
	return g
}

// awaitSet loads clones of the snapshot whose working set is being recorded, until that is there: it becomes one with the first load after its time.
func (s *suite) awaitSet(t *testing.T, from snapshot, set string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*s.patience())
	defer cancel()
	for {
		if _, err := os.Stat(set); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("no working set was recorded")
		}
		g := s.loadPaged(t, from, set)
		g.end()
		g.released = true
	}
}

// checkPagesLost takes away who brings the pages, and the pages.
func checkPagesLost(t *testing.T, s *suite) {
	if !s.Driver.Capabilities().PagedMemory {
		return
	}
	checkPagerKilled(t, s)
	checkPagerKilledUnseen(t, s)
	checkPagerEnds(t, s)
	checkMemoryCutOff(t, s)
}

// paged has a machine's memory come page by page.
func paged(l *vmm.Load) { l.Pages = &vmm.Pages{Snapshot: "x"} }

func checkPagerKilled(t *testing.T, s *suite) {
	g, r := s.loadAs(t, s.base, paged)
	r.killOthers(t, g.Handle().PID)
	g.mustLosePages(t, "without its pager")
	r.mustBeOver(t)
}

// checkPagerKilledUnseen is the same while nobody watches.
func checkPagerKilledUnseen(t *testing.T, s *suite) {
	g, r := s.loadAs(t, s.base, paged)
	h := reopened(t, g.Handle())
	g.Close()
	g.released = true
	r.killOthers(t, h.PID)
	if m, err := s.Driver.Recover(s.within(t), g.e, h); !errors.Is(err, vmm.ErrGone) || !errors.Is(err, vmm.ErrPages) {
		t.Errorf("a machine without its pager is recovered: %v, %v, want ErrGone and ErrPages", m, err)
	}
	r.mustBeOver(t)
}

// checkPagerEnds kills a machine: it takes its pager along.
func checkPagerEnds(t *testing.T, s *suite) {
	g, r := s.loadAs(t, s.base, paged)
	if err := unix.Kill(g.Handle().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-g.Done()
	r.awaitOver(t)
	if err := g.Err(); err != nil {
		t.Errorf("a killed machine ended for %v", err)
	}
}

// checkMemoryCutOff cuts off the memory's file, under a machine and before it's loaded: what is missing isn't zeros.
func checkMemoryCutOff(t *testing.T, s *suite) {
	short := filepath.Join(s.place(t), "memory")
	if err := Clone(s.base.memory, short, 0); err != nil {
		t.Fatal(err)
	}
	g, _ := s.loadAs(t, s.base, func(l *vmm.Load) { l.Memory = short; paged(l) })
	if err := os.Truncate(short, 1<<20); err != nil {
		t.Fatal(err)
	}
	ctx := s.within(t)
	g.session(ctx, "sh", "-c", "cat /bin/* /sbin/* /usr/bin/* >/dev/null") // whatever comes of it
	g.mustLosePages(t, "with a file that was cut off")

	e, r := s.enclosure(t)
	l := s.loadSpec(t, s.base, s.place(t), e.UID)
	l.Memory = short
	paged(&l)
	if m, err := s.Driver.Load(s.within(t), e, l); err == nil {
		t.Error("a machine is loaded from a file that was cut off")
		m.Kill(s.within(t))
	}
	r.mustBeOver(t)
}

// mustLosePages waits until the machine has ended for want of its pages.
func (g *guest) mustLosePages(t *testing.T, what string) {
	t.Helper()
	select {
	case <-g.Done():
	case <-g.s.within(t).Done():
		t.Fatalf("%s: the machine goes on", what)
	}
	if err := g.Err(); !errors.Is(err, vmm.ErrPages) {
		t.Errorf("%s: the machine ended for %v, want ErrPages", what, err)
	}
}

// killOthers kills all that was started but one.
func (r *recorder) killOthers(t *testing.T, pid int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	killed := 0
	for _, id := range r.started {
		if id.PID != pid {
			if err := proc.End(t.Context(), id, vmm.KillGrace); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("nothing else was started")
	}
}

// awaitOver waits until nothing runs that was started.
func (r *recorder) awaitOver(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, id := range r.started {
		fd, err := proc.Open(id)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := proc.Wait(ctx, fd); err != nil {
			t.Errorf("process %d goes on: %v", id.PID, err)
		}
		fd.Close()
	}
}
