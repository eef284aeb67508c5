//go:build vm

package host_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/peer"
)

// TestSnapshots pauses, suspends, restores and forks, with real machines, memories and disks.
func TestSnapshots(t *testing.T) {
	tell(t,
		story{"a paused sandbox stands still", pauseAndResume},
		story{"all of a suspended sandbox comes back", suspendAndRestore},
		story{"forks go their own ways", forks},
		story{"one after the other takes what differs", rolling},
		story{"one whose disk has failed is suspended", failedDisk},
	)
}

// counting prints numbers that follow each other.
const counting = `i=0; while :; do echo $i; i=$((i+1)); usleep 50000; done`

// count attaches to a session of numbers until ctx ends.
func (r *rig) count(ctx context.Context, route space.Route) (c *client, done <-chan error) {
	r.t.Helper()
	c = r.client(route, "/bin/sh", "-c", counting)
	return c, r.follow(ctx, c)
}

// follow attaches a client in the background.
func (r *rig) follow(ctx context.Context, c *client) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.attach(ctx, func(int) {}) }()
	return done
}

// text is what a client has got.
func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.data)
}

// checkCount checks that a client has got all numbers from 0 on, each once.
func (c *client) checkCount(t *testing.T) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(c.text(), "\n"), "\n")
	for i, l := range lines {
		if l != strconv.Itoa(i) && (i < len(lines)-1 || !strings.HasPrefix(strconv.Itoa(i), l)) {
			t.Fatalf("line %d of %d is %q", i, len(lines), l)
		}
	}
	t.Logf("it counted to %d", len(lines)-1)
}

// more waits until a client has counted on by so many.
func (c *client) more(t *testing.T, n int) {
	t.Helper()
	c.await(t, fmt.Sprintf("\n%d\n", strings.Count(c.text(), "\n")+n))
}

func pauseAndResume(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ := r.count(ctx, route)
	c.await(t, "\n3\n")
	order := &controlv1.PauseExecution{Route: peer.RouteMessage(route)}
	if _, err := r.host.PauseExecution(ctx, connect.NewRequest(&hostv1.PauseExecutionRequest{Order: order})); err != nil {
		t.Fatal(err)
	}
	r.awaitState(route, space.ExecutionPaused)
	before := c.text()
	time.Sleep(500 * time.Millisecond) // in which a machine that runs would count on; nothing says that it doesn't
	if after := c.text(); after != before {
		t.Errorf("a paused machine counted from %d to %d bytes", len(before), len(after))
	}
	r.kill()
	r.start()
	r.awaitState(route, space.ExecutionPaused)
	resume := &controlv1.ResumeExecution{Route: peer.RouteMessage(route)}
	if _, err := r.host.ResumeExecution(ctx, connect.NewRequest(&hostv1.ResumeExecutionRequest{Order: resume})); err != nil {
		t.Fatal(err)
	}
	r.checkClock(route)
	r.follow(ctx, c)
	c.more(t, 5)
	c.checkCount(t)
	r.remove(route)
}

// checkClock compares a guest's clock with ours.
func (r *rig) checkClock(route space.Route) {
	r.t.Helper()
	before := time.Now().Add(-time.Second)
	seconds, err := strconv.ParseInt(strings.TrimSpace(r.run(route, "date", "+%s")), 10, 64)
	if at := time.Unix(seconds, 0); err != nil || at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		r.t.Errorf("the guest's clock says %s, ours %s, %v", at, time.Now(), err)
	}
}

func (r *rig) awaitState(route space.Route, want space.ExecutionState) *controlv1.ExecutionReport {
	r.t.Helper()
	var got *controlv1.ExecutionReport
	r.await(string(want), 2*time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, e := range w.GetExecutions() {
			if e.GetRoute().GetExecution() == route.Execution {
				got = e
				return e.GetState() == string(want)
			}
		}
		return false
	})
	return got
}

// awaitSnapshot waits until a snapshot is ready.
func (r *rig) awaitSnapshot(id string) *controlv1.SnapshotReport {
	r.t.Helper()
	var got *controlv1.SnapshotReport
	r.await("the snapshot", 2*time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, s := range w.GetSnapshots() {
			if s.GetSnapshot() == id && s.GetState() == "failed" {
				r.t.Fatalf("the snapshot failed: %v", s.GetError())
			}
			if s.GetSnapshot() == id && s.GetState() == "ready" {
				got = s
				return true
			}
		}
		return false
	})
	return got
}

// awaitBytes waits until a snapshot counts as many bytes as it may: it can begin with too few, whose blocks were another's that has just been removed.
func (r *rig) awaitBytes(s *controlv1.SnapshotReport, least, most int64) {
	r.t.Helper()
	r.await(fmt.Sprintf("snapshot %s of %d bytes, to count %d to %d", s.GetSnapshot(), s.GetBytes(), least, most), 20*time.Second, func(w *hostv1.WatchResponse) bool {
		return slices.ContainsFunc(w.GetSnapshots(), func(now *controlv1.SnapshotReport) bool {
			got := int64(now.GetBytes())
			return now.GetSnapshot() == s.GetSnapshot() && least <= got && got <= most
		})
	})
}

// suspend suspends an execution and returns its snapshot.
func (r *rig) suspend(route space.Route) *controlv1.SnapshotReport {
	r.t.Helper()
	began := time.Now()
	order := &controlv1.SuspendExecution{Route: peer.RouteMessage(route), Snapshot: space.NewID(space.PrefixSnapshot)}
	if _, err := r.host.SuspendExecution(r.t.Context(), connect.NewRequest(&hostv1.SuspendExecutionRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
	r.awaitState(route, space.ExecutionSuspended)
	s := r.awaitSnapshot(order.GetSnapshot())
	r.t.Logf("suspended in %s, %d MiB of its own", time.Since(began).Round(time.Millisecond), s.GetBytes()>>20)
	return s
}

// take takes a full snapshot.
func (r *rig) take(route space.Route) *controlv1.SnapshotReport {
	r.t.Helper()
	order := &controlv1.TakeSnapshot{Route: peer.RouteMessage(route), Snapshot: space.NewID(space.PrefixSnapshot), Kind: controlv1.SnapshotKind_SNAPSHOT_KIND_FULL}
	if _, err := r.host.TakeSnapshot(r.t.Context(), connect.NewRequest(&hostv1.TakeSnapshotRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
	return r.awaitSnapshot(order.GetSnapshot())
}

// load orders an execution from a snapshot.
func (r *rig) load(s *controlv1.SnapshotReport, route space.Route) {
	r.t.Helper()
	took := r.order(&controlv1.EnsureExecution{
		Route: peer.RouteMessage(route), Template: s.GetTemplate(), Snapshot: s.GetSnapshot(), SnapshotDigest: s.GetDigest(),
	})
	r.t.Logf("loaded in %s", took.Round(time.Millisecond))
}

func (r *rig) removeSnapshot(s *controlv1.SnapshotReport) {
	r.t.Helper()
	order := &controlv1.RemoveSnapshot{Snapshot: s.GetSnapshot()}
	if _, err := r.host.RemoveSnapshot(r.t.Context(), connect.NewRequest(&hostv1.RemoveSnapshotRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
}

// identity is what a guest says of itself.
func (r *rig) identity(route space.Route) (boot, machine, name string) {
	r.t.Helper()
	out := strings.Fields(r.run(route, "/bin/sh", "-c", "cat /proc/sys/kernel/random/boot_id; cat /etc/machine-id 2>/dev/null || echo none; hostname"))
	if len(out) != 3 {
		r.t.Fatalf("the guest says %q", out)
	}
	return out[0], out[1], out[2]
}

// suspendAndRestore suspends twice: what a machine was booted for and what was restored are saved in different ways.
func suspendAndRestore(t *testing.T, r *rig, mini string) { suspendRounds(t, r, mini, 2) }

// suspendRounds suspends a machine and restores it by another daemon, again and again: its files, a counter, a server and a session go on, and what it has
// of the volume stays as much.
func suspendRounds(t *testing.T, r *rig, mini string, rounds int) {
	route := r.route()
	r.ensure(mini, route)
	r.run(route, "/bin/sh", "-c", "dd if=/dev/urandom of=$HOME/data bs=1M count=8 2>/dev/null && cp $HOME/data /dev/shm/data")
	const sums = "sha256sum $HOME/data /dev/shm/data | cut -d' ' -f1"
	want := r.run(route, "/bin/sh", "-c", sums)
	r.run(route, "/bin/sh", "-c", "(while :; do echo served | nc -l -p 4000; done) >/dev/null 2>&1 &")
	const ask = "for i in 1 2 3 4 5; do nc 127.0.0.1 4000 </dev/null && exit; usleep 200000; done; exit 1"
	r.run(route, "/bin/sh", "-c", ask)
	boot, machine, name := r.identity(route)
	c, done := r.count(t.Context(), route)
	var last *controlv1.SnapshotReport
	var used int64
	for round := range rounds {
		c.more(t, 5)
		s := r.suspend(route)
		if err := <-done; err != nil || c.last.GetEnded().GetReason() != "suspended" {
			t.Errorf("the client's stream ends with %v, %v", c.last, err)
		}
		if left := r.machines(); len(left) > 0 {
			t.Errorf("machines %v still run", left)
		}
		dir := filepath.Join(r.volume().Path, "executions")
		for _, name := range []string{"disk.img", "mem.img"} {
			if found, err := filepath.Glob(filepath.Join(dir, "*", name)); err != nil || len(found) > 0 {
				t.Errorf("left are %v, %v", found, err)
			}
		}
		r.kill()
		r.start()
		old := route
		route = successor(route)
		r.load(s, route)
		r.remove(old)
		if last != nil {
			r.removeSnapshot(last)
		}
		last = s
		c.route = route
		done = r.follow(t.Context(), c)
		c.more(t, 5)
		c.checkCount(t)
		r.checkPID(c)
		if got := r.run(route, "/bin/sh", "-c", sums); got != want {
			t.Errorf("the files' sums are %q, were %q", got, want)
		}
		if got := r.run(route, "/bin/sh", "-c", ask); got != "served\n" {
			t.Errorf("the server says %q", got)
		}
		r.checkClock(route)
		nextBoot, nextMachine, nextName := r.identity(route)
		if nextBoot == boot || nextMachine != machine || nextName != name {
			t.Errorf("it's %s %s %s, and was %s %s %s", nextBoot, nextMachine, nextName, boot, machine, name)
		}
		boot = nextBoot
		if round == 1 { // from now on each round leaves what the one before has left
			used = r.used()
		}
		r.awaitUsed(used+roundsMayTake, round)
	}
	defer r.removeSnapshot(last)
	r.stopExecution(route)
	r.checkDisk(route)
	r.remove(route)
}

// roundsMayTake is how much more of the volume a sandbox may use after any number of suspends: what it has written itself, and the session's output.
const roundsMayTake = 64 << 20

// used is how much of the volume is.
func (r *rig) used() int64 {
	r.t.Helper()
	if err := disk.Sync(filepath.Join(r.volume().Path, "executions")); err != nil { // what was removed is free then
		r.t.Fatal(err)
	}
	u, err := r.volume().Usage()
	if err != nil {
		r.t.Fatal(err)
	}
	return u.Bytes - u.FreeBytes
}

// awaitUsed waits until no more than that of the volume is used: btrfs frees what was removed later. Before the second round, 1, nothing is known.
func (r *rig) awaitUsed(most int64, round int) {
	r.t.Helper()
	for until := time.Now().Add(time.Minute); round > 0; time.Sleep(50 * time.Millisecond) {
		now := r.used()
		if now <= most {
			return
		}
		if time.Now().After(until) {
			r.t.Fatalf("%d MiB of the volume are used after round %d, at most %d MiB may be", now>>20, round+1, most>>20)
		}
	}
}

// checkPID checks that a client's session is listed with its process, as it's known in the guest.
func (r *rig) checkPID(c *client) {
	r.t.Helper()
	list := &sandboxv1.Action{Action: &sandboxv1.Action_ListSessions{ListSessions: &sandboxv1.ListSessions{}}}
	answers, _ := r.act(c.route, list, nil)
	n := 0
	for _, s := range answers[0].GetSessions().GetSessions() {
		if s.GetSession() == c.session {
			n++
			if s.GetPid() == 0 || s.GetEnded() {
				r.t.Errorf("it's listed as %v", s)
			}
		}
	}
	if n != 1 {
		r.t.Errorf("it's listed %d times", n)
	}
}

// checkDisk has e2fsck look at a stopped execution's disk.
func (r *rig) checkDisk(route space.Route) {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.volume().Path, "executions", "*"+space.HostLabel(route.Execution)+"*", "disk.img"))
	if err != nil || len(found) != 1 {
		r.t.Fatalf("its disks are %v, %v", found, err)
	}
	if out, err := exec.Command("e2fsck", "-f", "-n", found[0]).CombinedOutput(); err != nil {
		r.t.Errorf("e2fsck: %v: %s", err, out)
	}
}

// rolling takes three snapshots of a sandbox that has written much into its memory once, and then writes little: those after the first take little, and each loads as it was, also
// when those before it are gone.
func rolling(t *testing.T, r *rig, mini string) {
	const much = 40 << 20   // bytes
	const little = much / 4 // an idle guest writes some as well
	route := r.route()
	r.ensure(mini, route)
	r.run(route, "/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/urandom >/dev/shm/much", much))
	const show = "sha256sum </dev/shm/much; cat /dev/shm/who"
	var made []*controlv1.SnapshotReport
	var want []string
	for n := range 3 {
		want = append(want, r.run(route, "/bin/sh", "-c", fmt.Sprintf("echo %d >/dev/shm/who; echo %d | dd of=/dev/shm/much bs=1M seek=%d conv=notrunc 2>/dev/null; %s", n, n, 10*n, show)))
		s := r.take(route)
		t.Logf("snapshot %d takes %.1f MiB, and the sandbox stood still for %s", n, float64(s.GetBytes())/(1<<20), s.GetPause().AsDuration().Round(time.Millisecond))
		least, most := int64(1), int64(little)
		if n == 0 {
			least, most = much, 4*much
		}
		r.awaitBytes(s, least, most)
		made = append(made, s)
	}
	check := func(n int) {
		t.Helper()
		f := r.route()
		r.load(made[n], f)
		if got := r.run(f, "/bin/sh", "-c", show); got != want[n] {
			t.Errorf("of snapshot %d it has %q, want %q", n, got, want[n])
		}
		r.remove(f)
	}
	check(0)
	r.removeSnapshot(made[0])
	check(1)
	r.kill()
	r.start()
	r.removeSnapshot(made[1])
	check(2)
	r.removeSnapshot(made[2])
	r.remove(route)
}

// drawing prints random bytes, the time and the boot's id, as often as it can.
const drawing = `while :; do echo "$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n') $(date +%s) $(cat /proc/sys/kernel/random/boot_id)"; done`

var drawn = regexp.MustCompile(`(?m)^([0-9a-f]{32}) (\d+) ([0-9a-f-]{36})$`)

func forks(t *testing.T, r *rig, mini string) {
	source := r.route()
	r.ensure(mini, source)
	r.run(source, "/bin/sh", "-c", "echo source > $HOME/who; sync")
	numbers, _ := r.count(t.Context(), source)
	logger := r.client(source, "/bin/sh", "-c", drawing)
	r.follow(t.Context(), logger)
	logger.await(t, "\n")
	numbers.await(t, "\n3\n")
	s := r.take(source)
	t.Logf("the source stood still for %s; %d MiB of its own", s.GetPause().AsDuration().Round(time.Millisecond), s.GetBytes()>>20)
	before := struct {
		sums   string
		logged int // at most, of the source
	}{r.sums(s), len(logger.text())}
	numbers.more(t, 5)
	numbers.checkCount(t)
	sourceBoot, sourceMachine, sourceName := r.identity(source)
	seen := map[string]string{} // random bytes → whose
	ids := map[string]string{sourceBoot: "source", sourceMachine: "source", sourceName: "source"}
	routes := []space.Route{source}
	clients := []*client{logger}
	for i := range 3 {
		f := r.route()
		r.load(s, f)
		routes = append(routes, f)
		boot, machine, name := r.identity(f)
		for _, id := range []string{boot, machine, name} {
			if other, ok := ids[id]; ok && id != "none" {
				t.Errorf("fork %d has %s, and so has %s", i, id, other)
			}
			ids[id] = fmt.Sprint("fork ", i)
		}
		report := r.awaitState(f, space.ExecutionRunning)
		if len(report.GetSessions()) != 2 {
			t.Errorf("fork %d has the sessions %v", i, report.GetSessions())
		}
		for _, c := range report.GetSessions() {
			if c.GetOf() != logger.session {
				continue
			}
			x := r.client(f, logger.spec.Argv...)
			x.session, x.started = c.GetSession(), true
			r.follow(t.Context(), x)
			clients = append(clients, x)
		}
		r.run(f, "/bin/sh", "-c", fmt.Sprintf("echo fork %d > $HOME/who; dd if=/dev/urandom of=$HOME/data bs=1M count=4 2>/dev/null; sync", i))
	}
	const some = 600 // bytes: seven lines, which take a machine under emulation a while beside three others
	for i, c := range clients {
		had := len(c.text())
		if i > 0 {
			had = before.logged // with which a fork's log begins
		}
		c.awaitLonger(t, had+some)
	}
	kept := len(drawn.FindAllString(clients[1].prefix(clients), -1))
	for i, c := range clients {
		lines := drawn.FindAllStringSubmatch(c.text(), -1)
		for n, l := range lines {
			if i > 0 && n <= kept {
				continue // what the source had drawn before the snapshot; the last of it was printed after it
			}
			if i > 0 && l[3] == sourceBoot {
				t.Fatalf("clone %d has the source's boot in line %d", i, n)
			}
			if other, ok := seen[l[1]]; ok {
				t.Fatalf("%s was drawn by %s and by clone %d, in line %d", l[1], other, i, n)
			}
			seen[l[1]] = fmt.Sprintf("clone %d", i)
		}
	}
	for i, route := range routes {
		want := "source\n"
		if i > 0 {
			want = fmt.Sprintf("fork %d\n", i-1)
		}
		if got := r.run(route, "/bin/sh", "-c", "cat $HOME/who"); got != want {
			t.Errorf("machine %d says it's %q", i, got)
		}
		r.checkClock(route)
	}
	if after := r.sums(s); after != before.sums {
		t.Errorf("the snapshot's files have changed:\n%s\n%s", before.sums, after)
	}
	r.removeSnapshot(s)
	for _, route := range routes {
		r.halt(route)
		r.checkDisk(route)
		r.remove(route)
	}
}

// halt stops an execution beside which others run.
func (r *rig) halt(route space.Route) {
	r.t.Helper()
	order := &controlv1.StopExecution{Route: peer.RouteMessage(route)}
	if _, err := r.host.StopExecution(r.t.Context(), connect.NewRequest(&hostv1.StopExecutionRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
	r.awaitState(route, space.ExecutionStopped)
}

// prefix is what all clients have got alike, in whole lines: what was there before the snapshot.
func (c *client) prefix(all []*client) string {
	text := c.text()
	for _, o := range all {
		other := o.text()
		n := 0
		for n < len(text) && n < len(other) && text[n] == other[n] {
			n++
		}
		text = text[:n]
	}
	return text[:strings.LastIndexByte(text, '\n')+1]
}

// awaitLonger waits until a client that is attached has so many bytes.
func (c *client) awaitLonger(t *testing.T, bytes int) {
	t.Helper()
	for deadline := time.After(2 * time.Minute); ; {
		c.mu.Lock()
		n, changed := len(c.data), c.changed
		c.mu.Unlock()
		if n >= bytes {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("it has %d bytes, want %d", n, bytes)
		}
	}
}

// sums are the digests of a snapshot's files.
func (r *rig) sums(s *controlv1.SnapshotReport) string {
	r.t.Helper()
	var out strings.Builder
	for _, name := range []string{"manifest.json", "disk.img", "mem.img", "state.bin"} {
		f, err := os.Open(filepath.Join(r.volume().Path, "snapshots", space.HostLabel(s.GetSnapshot()), name))
		if err != nil {
			r.t.Fatal(err)
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %x\n", name, h.Sum(nil))
	}
	return out.String()
}
