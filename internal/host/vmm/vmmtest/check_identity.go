package vmmtest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// Identity is the suite of what machines must not have in common, with many clones: see checkIdentity.
func Identity(t *testing.T, f Fixture, clones int) {
	s := &suite{Fixture: f, dir: t.TempDir(), root: t}
	checkSaveAndLoad(t, s)
	identity(t, s, clones)
}

// checkIdentity has processes read their machine's random numbers, clock and boot id without a pause, while the machine is paused, saved, loaded many
// times and goes on. After the moment in which they were frozen nobody reads what another one has read, or what was before.
func checkIdentity(t *testing.T, s *suite) { identity(t, s, 2) }

// watchers are the processes that read: one that has left its session, and those that have left their cgroup.
var watchers = map[string]string{
	"daemon": "", "root": "echo $$ >/sys/fs/cgroup/cgroup.procs;", "group": "mkdir /sys/fs/cgroup/own; echo $$ >/sys/fs/cgroup/own/cgroup.procs;",
}

// watch is a shell's loop that calls no program. Only one of the watchers has no rest between two readings: the machine has one processor.
const watch = `exec 3<>/run/rest; while :; do read u </proc/sys/kernel/random/uuid; read b </proc/sys/kernel/random/boot_id; echo "$EPOCHREALTIME $b $u"; [ $1 = daemon ] || read -t 0.002 x <&3; done`

// linesEach is how many lines of each watcher are looked at.
const linesEach = 8

func identity(t *testing.T, s *suite, clones int) {
	g := s.load(t, s.base)
	g.watch(watchers)
	source := g.names()
	seen := newSightings(t)
	var snap snapshot
	var frozen map[string]int64
	for what, still := range map[string]func(){"paused": g.pause, "saved": func() { snap = g.save(s.place(t)) }} {
		g.quiesce()
		lengths := g.logs()
		if still(); what == "saved" {
			frozen = lengths
		}
		if err := g.Resume(s.within(t)); err != nil {
			t.Fatal(err)
		}
		seen.take(g, g.greet(false), lengths)
		if n := g.names(); n != source {
			t.Errorf("after it was %s the source is %+v, before %+v", what, n, source)
		}
	}
	g.Kill(s.within(t)) // the processor is for the others
	var all sync.WaitGroup
	turn := make(chan struct{}, 2)
	for range clones {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			seen.clone(s, snap, frozen, source)
		})
	}
	all.Wait()
	if want := (clones + 1) * len(watchers) * linesEach; len(seen.drawn) < want {
		t.Errorf("%d random numbers were seen, want %d", len(seen.drawn), want)
	}
}

// names are what a machine is called.
type names struct{ boot, machine, host, hosts string }

func (g *guest) names() names {
	g.t.Helper()
	out := strings.Split(g.sh("cat /proc/sys/kernel/random/boot_id /etc/machine-id; hostname; grep -c $(hostname) /etc/hosts"), "\n")
	if len(out) != 4 {
		g.t.Fatalf("its names are %q", out)
	}
	return names{out[0], out[1], out[2], out[3]}
}

// sightings are what was read in all machines.
type sightings struct {
	t *testing.T

	mu    sync.Mutex
	drawn map[string]string // by random number: by whom
	named map[string]string // by boot id, machine id, host name: whose
}

func newSightings(t *testing.T) *sightings {
	return &sightings{t: t, drawn: map[string]string{}, named: map[string]string{}}
}

// clone loads a clone, looks at it and ends it.
func (v *sightings) clone(s *suite, from snapshot, frozen map[string]int64, source names) {
	c := s.load(v.t, from)
	defer c.Kill(s.within(v.t))
	v.take(c, c.greeted, frozen)
	n := c.names()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range []string{n.boot, n.machine, n.host} {
		if of, ok := v.named[name]; ok || name == source.boot || name == source.machine || name == source.host {
			v.t.Errorf("%s and %s are both called %q", c.e.ID, of, name)
		}
		v.named[name] = c.e.ID
	}
	if n.hosts != "1" {
		v.t.Errorf("%s lines of the hosts file have its name", n.hosts)
	}
}

// take looks at what a machine's watchers have read since they were frozen. The greeting began at a time.
func (v *sightings) take(g *guest, greeted time.Time, frozen map[string]int64) {
	// What a watcher had read when it was frozen it writes afterwards: the first line doesn't count.
	command := "cat /proc/sys/kernel/random/boot_id"
	for name, at := range frozen {
		command += fmt.Sprintf("; tail -c +%d /run/log.%s | head -n %d | tail -n +2", at+1, name, linesEach+1)
	}
	lines := strings.Split(g.sh(awaitLines(frozen)+command), "\n")
	if want := 1 + len(frozen)*linesEach; len(lines) != want {
		v.t.Errorf("%s wrote %d lines, want %d", g.e.ID, len(lines), want)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, line := range lines[1:] {
		v.line(g.e.ID, line, lines[0], greeted)
	}
}

// line looks at one. mu is held.
func (v *sightings) line(who, line, boot string, greeted time.Time) {
	f := strings.Fields(line)
	if len(f) != 3 {
		v.t.Errorf("%s wrote %q", who, line)
		return
	}
	if f[1] != boot {
		v.t.Errorf("%s read the boot id %s, want %s", who, f[1], boot)
	}
	if of, ok := v.drawn[f[2]]; ok {
		v.t.Errorf("%s and %s have both drawn %s", who, of, f[2])
	}
	v.drawn[f[2]] = who
	if sec, err := strconv.ParseFloat(f[0], 64); err != nil || sec < float64(greeted.UnixMicro())/1e6 {
		v.t.Errorf("%s read the time %s, and was greeted at %s (%v)", who, f[0], greeted.Format(time.StampMicro), err)
	}
}

// logs are how long the watchers' are. The agent is asked, which runs on when they are frozen.
func (g *guest) logs() map[string]int64 {
	g.t.Helper()
	out := map[string]int64{}
	for name := range watchers {
		a := &sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: "/run/log." + name}}}
		out[name] = int64(g.files(a, "").GetSize())
	}
	return out
}

// watch starts watchers, and returns when all have written.
func (g *guest) watch(watchers map[string]string) {
	g.t.Helper()
	command := "mkfifo /run/rest; echo '" + watch + "' >/run/watch"
	none := map[string]int64{}
	for name, leave := range watchers {
		command += fmt.Sprintf("; : >/run/log.%s; (setsid sh -c '%s exec sh /run/watch %s' >>/run/log.%s 2>&1 </dev/null &)", name, leave, name, name)
		none[name] = 0
	}
	g.sh(command + "; " + awaitLines(none))
}

// awaitLines is a command that waits until logs have enough lines since they were as long as that.
func awaitLines(since map[string]int64) (command string) {
	for name, at := range since {
		command += fmt.Sprintf("while [ $(tail -c +%d /run/log.%s | wc -l) -le %d ]; do usleep 10000; done; ", at+1, name, linesEach)
	}
	return command
}
