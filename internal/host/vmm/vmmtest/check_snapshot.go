package vmmtest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/machine"
)

// checkDiverge has two clones write to the same places of their memory and disks. Neither sees the other's, and the snapshot sees none.
func checkDiverge(t *testing.T, s *suite) {
	before := s.base.sums(t)
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
	for _, g := range []*guest{a, b} {
		if err := g.Kill(s.within(t)); err != nil {
			t.Fatal(err)
		}
		checkFileSystem(t, g.disk)
	}
	if after := s.base.sums(t); after != before {
		t.Errorf("the snapshot's files have checksums %v, before its clones ran %v", after, before)
	}
}

// sums are checksums of the files.
func (s snapshot) sums(t *testing.T) (sums [3]uint32) {
	t.Helper()
	for i, path := range []string{s.state, s.memory, s.disk} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = h.Sum32()
	}
	return sums
}

// checkFileSystem looks for faults in the disk of a machine that is gone. What its journal has is written first, as a kernel would.
func checkFileSystem(t *testing.T, disk string) {
	t.Helper()
	for _, args := range [][]string{{"-y", "-E", "journal_only"}, {"-f", "-n"}} {
		out, err := exec.Command("e2fsck", append(args, disk)...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && args[0] == "-y" && exit.ExitCode() == 1 {
			continue // it has written the journal
		}
		if err != nil {
			t.Errorf("e2fsck %v: %v: %s", args, err, out)
		}
	}
}

// checkBusySave saves a machine while it writes to memory and disk as fast as it can. It's only frozen for that: what it had written is whole, since
// memory and disk are of one moment.
func checkBusySave(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	g.sh(`cat >/run/write <<'END'
n=0
while ! [ -e /run/stop ]; do
	n=$((n+1))
	head -c 200000 /dev/urandom >$1.new; md5sum <$1.new >$1.sum.new; mv $1.new $1.$n; mv $1.sum.new $1.sum.$n; rm -f $1.$((n-2)) $1.sum.$((n-2)); [ $n -lt 3 ] || : >$1.ready
done
: >$1.over
END
for d in /run/busy /root/busy; do (sh /run/write $d >/dev/null 2>&1 </dev/null &); done`)
	g.sh("while ! [ -e /run/busy.ready ] || ! [ -e /root/busy.ready ]; do usleep 10000; done")
	if err := errors.Join(machine.WriteOut(s.within(t), g.link), machine.Freeze(s.within(t), g.link)); err != nil {
		t.Fatal(err)
	}
	g.hangUp()
	if err := g.Pause(s.within(t)); err != nil {
		t.Fatal(err)
	}
	snap := g.keep(s.place(t))
	checkFileSystem(t, clone(t, snap.disk, s.place(t), "disk", 0))
	c := s.load(t, snap)
	// They go on where they were; then every pair must fit that is there when they stand still.
	out := c.sh(`: >/run/stop; while ! [ -e /run/busy.over ] || ! [ -e /root/busy.over ]; do usleep 10000; done; n=0
for f in /run/busy.[0-9]* /root/busy.[0-9]*; do s=${f%.*}.sum.${f##*.}; [ "$(md5sum <$f)" = "$(cat $s)" ] || echo $f; n=$((n+1)); done; [ $n -ge 2 ] || echo only $n`)
	if out != "" {
		t.Errorf("in a clone of a busy machine what it had written isn't whole: %s", out)
	}
}

func checkSaveClone(t *testing.T, s *suite) {
	const fill = "head -c 4000000 /dev/urandom >/run/random; cp /run/random /root/random; md5sum </run/random"
	const sum = "md5sum </run/random; md5sum </root/random; cat /root/file /run/memory"
	g := s.load(t, s.base)
	want := g.sh(fill)
	g.sh("echo clone >/root/file; echo clone >/run/memory")
	snap := g.save(s.place(t))
	g.goOn()
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

// checkTime compares a guest's clock with the host's. A guest that hears the time late is behind by as much: on a host that is emulated itself, and busy, by a second.
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
	late := g.heard.Sub(g.told)
	earliest, latest := before.Add(-tolerance-late).Unix(), after.Add(tolerance).Unix()
	if sec < earliest || sec > latest {
		t.Errorf("the guest's clock says %d, want %d to %d; the snapshot is of %s", sec, earliest, latest, saved)
	}
}

// checkSaveAgain saves a machine over copies of what was saved of it earlier, in this life of the daemon and in another one: each time all of the moment is there, also
// what is as it once was.
func checkSaveAgain(t *testing.T, s *suite) {
	const sums = "md5sum </run/kept; md5sum </run/changed; cat /run/memory"
	g := s.load(t, s.base)
	g.sh("head -c 4000000 /dev/urandom >/run/kept; head -c 1000000 /dev/urandom >/run/changed; echo first >/run/memory")
	first := g.save(s.place(t))
	g.goOn()
	g.sh("head -c 1000000 /dev/urandom >/run/changed; head -c 1000000 /dev/urandom >/run/more; echo second >/run/memory")
	var want []string
	var made []snapshot
	saveOver := func(earlier snapshot) {
		want = append(want, g.sh(sums))
		made = append(made, g.saveOver(earlier, s.place(t)))
	}
	saveOver(first)
	g.goOn()
	g.sh("head -c 1000000 /dev/urandom >/run/changed; echo first >/run/memory")
	saveOver(made[0])
	if !s.Inside {
		g = g.recover()
	}
	g.goOn()
	g.sh("rm /run/more; echo third >/run/memory")
	saveOver(first) // which isn't the newest
	for i, snap := range made {
		if out := s.load(t, snap).sh(sums); out != want[i] {
			t.Errorf("a clone of the next snapshot, %d, has %q, want %q", i, out, want[i])
		}
	}
}
