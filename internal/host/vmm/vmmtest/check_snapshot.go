package vmmtest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func checkDiverge(t *testing.T, s *suite) {
	a, b := s.load(t, s.base), s.load(t, s.base)
	const show = "cat /root/file /run/memory"
	for _, g := range []*guest{a, b} {
		if out := g.sh(show); out != "base\nbase" {
			t.Fatalf("a clone has %q, want what the snapshot had", out)
		}
	}
	a.sh("echo a >/root/file; echo a >/run/memory; sync")
	b.sh("echo b >/root/file; echo b >/run/memory; sync")
	if out := a.sh(show); out != "a\na" {
		t.Errorf("the first clone has %q", out)
	}
	if out := b.sh(show); out != "b\nb" {
		t.Errorf("the second clone has %q", out)
	}
	if out := s.load(t, s.base).sh(show); out != "base\nbase" {
		t.Errorf("a third clone has %q: the snapshot was written to", out)
	}
}

func checkSaveClone(t *testing.T, s *suite) {
	const fill = "head -c 4000000 /dev/urandom >/run/random; cp /run/random /root/random; md5sum </run/random"
	const sum = "md5sum </run/random; md5sum </root/random; cat /root/file /run/memory"
	g := s.load(t, s.base)
	want := g.sh(fill)
	g.sh("echo clone >/root/file; echo clone >/run/memory")
	snap := g.save(s.place(t))
	if err := g.Resume(s.within(t)); err != nil {
		t.Fatal(err)
	}
	g.greet(false)
	g.sh("echo later >/root/file; echo later >/run/memory; rm /run/random")
	for generation := range 2 {
		c := s.load(t, snap)
		if out := c.sh(sum); out != want+"\n"+want+"\nclone\nclone" {
			t.Fatalf("generation %d has %q, want what was saved: %s", generation, out, want)
		}
		snap = c.save(s.place(t))
	}
}

// checkTogether loads several clones at the same moment, as a fork does: each has what was saved, and what it changes is its own.
func checkTogether(t *testing.T, s *suite) {
	const clones = 6
	var guests [clones]*guest
	var errs [clones]error
	var all sync.WaitGroup
	ctx := s.within(t)
	for i := range clones {
		e, _ := s.enclosure(t)
		g := s.guest(t, nil, e, s.place(t), "", s.base.memory)
		l := s.loadSpec(t, s.base, g.dir, e.UID)
		guests[i], g.disk = g, l.Disk
		all.Go(func() { g.Machine, errs[i] = s.Driver.Load(ctx, e, l) })
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, g := range guests {
		g.greet(true)
		g.sh(fmt.Sprintf("echo %d >>/root/file; echo %d >>/run/memory; sync", i, i))
	}
	for i, g := range guests {
		if out, want := g.sh("cat /root/file /run/memory"), fmt.Sprintf("base\n%d\nbase\n%d", i, i); out != want {
			t.Errorf("clone %d has %q, want %q", i, out, want)
		}
	}
}

func checkEntropy(t *testing.T, s *suite) {
	const draw = "od -An -N16 -tx1 /dev/urandom; cat /proc/sys/kernel/random/uuid"
	seen := map[string]bool{}
	for range 3 {
		for line := range strings.Lines(s.load(t, s.base).sh(draw)) {
			if seen[line] {
				t.Errorf("two clones drew %q", line)
			}
			seen[line] = true
		}
	}
}

func checkClock(t *testing.T, s *suite) { checkTime(t, s.load(t, s.base), s.base.saved) }

// checkTime compares a guest's clock with the host's.
func checkTime(t *testing.T, g *guest, saved time.Time) {
	t.Helper()
	const tolerance = 250 * time.Millisecond
	before := time.Now()
	out := g.sh("date +%s")
	after := time.Now()
	sec, err := strconv.ParseInt(out, 10, 64)
	if err != nil {
		t.Fatalf("the guest's date is %q: %v", out, err)
	}
	earliest, latest := before.Add(-tolerance).Unix(), after.Add(tolerance).Unix()
	if sec < earliest || sec > latest {
		t.Errorf("the guest's clock says %d, want %d to %d; the snapshot is of %s", sec, earliest, latest, saved)
	}
}
