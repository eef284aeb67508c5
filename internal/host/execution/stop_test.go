package execution

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/session"
)

func stop(t *testing.T, table *Table, r space.Route) {
	t.Helper()
	beginStop(t, table, r)
	ctx, cancel := context.WithTimeout(t.Context(), 2*quiesceTimeout)
	defer cancel()
	awaitStopped(ctx, t, table, r)
}

// beginStop orders a stop, which is taken at once.
func beginStop(t *testing.T, table *Table, r space.Route) {
	t.Helper()
	if err := table.Stop(t.Context(), r, time.Second); err != nil {
		t.Fatal(err)
	}
}

// awaitStopped waits until a stop has done its work.
func awaitStopped(ctx context.Context, t *testing.T, table *Table, r space.Route) {
	t.Helper()
	e, err := table.find(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.await(ctx, e.ended); err != nil {
		t.Fatal(err)
	}
	if s := e.report().State; s != space.ExecutionStopped {
		t.Fatalf("it's %s", s)
	}
}

// successor is an order for the next execution of a sandbox, from the disk of the one before.
func successor(o Order) Order {
	next := o
	next.Route.Execution, next.Route.Epoch, next.DiskOf = space.NewID(space.PrefixExecution), o.Route.Epoch+1, o.Route.Execution
	return next
}

func stateOf(t *testing.T, table *Table, o Order) space.ExecutionState {
	t.Helper()
	for _, r := range table.Reports() {
		if r.Route == o.Route {
			return r.State
		}
	}
	return space.ExecutionGone
}

// scribble changes an execution's disk, as a guest does.
func (r *rig) scribble(o Order, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(o, diskName), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(o Order, name string) string {
	return filepath.Join(r.dir, "executions", space.HostLabel(o.Route.Execution), name)
}

func (r *rig) checkDisk(o Order, want string) {
	r.t.Helper()
	b, err := os.ReadFile(r.path(o, diskName))
	if err != nil || len(b) < len(want) || string(b[:len(want)]) != want {
		r.t.Errorf("the disk has %.20q, %v, want %q", b, err, want)
	}
}

func TestStopKeepsTheDiskAndNothingElse(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "files")
	a := attach(t, table, o.Route, "wait")
	a.next(t)
	a.next(t)
	stop(t, table, o.Route)
	if e := a.next(t).GetExit(); e.GetSignal() != 15 || !e.GetStopped() {
		t.Errorf("the client was told %v", e)
	}
	for range 2 {
		if len(r.homes) > 0 || len(r.running()) > 0 || r.exists(o, memoryName) {
			t.Errorf("left are enclosures %v and %d machines", r.homes, len(r.running()))
		}
		stop(t, table, o.Route)
		ensure(t, table, o, space.ExecutionStopped)
		r.checkDisk(o, "files")
		if err := <-attach(t, table, o.Route, "true").err; space.CodeOf(err) != space.CodeConflict {
			t.Errorf("a new session: %v", err)
		}
		table.Close()
		table = r.open()
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
	if err := table.Stop(t.Context(), o.Route, 0); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("stopping one that isn't there: %v", err)
	}
}

func TestStartFromTheDiskOfOneThatEnded(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *rig, *Table, Order){
		"stopped": func(t *testing.T, _ *rig, table *Table, o Order) { stop(t, table, o.Route) },
		"lost": func(t *testing.T, r *rig, table *Table, o Order) {
			r.running()[0].die()
			r.awaitFreed(t, table, o, space.ExecutionLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.scribble(o, "files")
			end(t, r, table, o)
			next := successor(o)
			next.Size = rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 2 * mib}
			r.template = errors.New("the template is gone")
			ensure(t, table, next, space.ExecutionRunning)
			r.checkDisk(next, "files")
			if b := r.boots[0]; len(r.boots) != 1 || b.Shape.VCPUs != 2 || b.Memory != "" || b.Disk != r.path(next, diskName) {
				t.Errorf("booted %+v", r.boots)
			}
			if info, err := os.Stat(r.path(next, diskName)); err != nil || info.Size() != 2*mib {
				t.Errorf("the disk is %v, %v", info, err)
			}
			remove(t, table, o.Route)
			ensure(t, table, next, space.ExecutionRunning)
			r.checkDisk(next, "files")
			remove(t, table, next.Route)
			r.checkNothingLeft()
		})
	}
}

func TestAStartThatFailsCostsNothing(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "files")
	stop(t, table, o.Route)
	r.loadErr = errors.New("broken")
	next := successor(o)
	ensure(t, table, next, space.ExecutionFailed)
	ensure(t, table, o, space.ExecutionStopped)
	r.checkDisk(o, "files")
	r.loadErr = nil
	again := successor(o)
	ensure(t, table, again, space.ExecutionRunning)
	r.checkDisk(again, "files")
	for _, x := range []Order{o, next, again} {
		remove(t, table, x.Route)
	}
	r.checkNothingLeft()
}

func TestWhoseDiskCanBeUsed(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	for name, c := range map[string]struct {
		change func(*Order)
		want   space.Code
	}{
		"of one that runs":     {func(*Order) {}, space.CodeConflict},
		"of an unknown one":    {func(o *Order) { o.DiskOf = space.NewID(space.PrefixExecution) }, space.CodeExecutionLost},
		"of another sandbox's": {func(o *Order) { o.Route.Sandbox = space.NewID(space.PrefixSandbox) }, space.CodeExecutionLost},
	} {
		next := successor(o)
		c.change(&next)
		if got := ensure(t, table, next, space.ExecutionFailed); space.CodeOf(got.Err) != c.want {
			t.Errorf("the disk %s: %v, want %s", name, got.Err, c.want)
		}
	}
	ensure(t, table, o, space.ExecutionRunning)
}

func TestInterruptedStopGoesOn(t *testing.T) {
	for _, step := range []string{"quiesce", "free"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.scribble(o, "files")
			var there <-chan struct{}
			if step == "quiesce" {
				r.deaf = make(chan struct{})
				there = r.deaf
			} else {
				there = r.stopAt(step)
			}
			beginStop(t, table, o.Route)
			<-there
			table.Close()
			r.mu.Lock()
			r.deaf = nil
			r.mu.Unlock()
			table = r.open()
			stop(t, table, o.Route)
			r.checkDisk(o, "files")
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

// TestStopIsFinishedByTheNextDaemon kills the daemon when everything is free and the state isn't written yet.
func TestStopIsFinishedByTheNextDaemon(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	stop(t, table, o.Route)
	table.Close()
	rec, err := readRecord(r.path(o, ""))
	if err != nil {
		t.Fatal(err)
	}
	rec.State, rec.Stopping = space.ExecutionRunning, true
	if err := rec.write(r.path(o, "")); err != nil {
		t.Fatal(err)
	}
	table = r.open()
	stop(t, table, o.Route)
	ensure(t, table, o, space.ExecutionStopped)
}

func TestWedgedGuestIsStoppedAfterADeadline(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.t, r.deaf = t, make(chan struct{})
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		stop(t, table, o.Route)
		if len(r.running()) > 0 {
			t.Error("the machine still runs")
		}
		remove(t, table, o.Route)
		r.checkNothingLeft()
		table.Close()
	})
}

func TestRemovalInterruptsAStop(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	there := r.stopAt("free")
	beginStop(t, table, o.Route)
	<-there
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

func TestMachineThatDiesInAStopIsStopped(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "files")
	there := r.stopAt("free")
	beginStop(t, table, o.Route)
	<-there
	table.Close()
	for _, m := range r.running() {
		m.die()
	}
	table = r.open()
	stop(t, table, o.Route)
	r.checkDisk(o, "files")
}

func TestShapeWithoutASnapshotBoots(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	o.Size = rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 4 * mib}
	r.starts = &sessionv1.Spec{Argv: []string{"server"}}
	ensure(t, table, o, space.ExecutionRunning)
	if r.wanted == nil || r.wanted[0] != o.Size {
		t.Errorf("a snapshot for %v is wanted", r.wanted)
	}
	checkOneSession(t, table, o, "server")
	if b := r.boots[0]; r.loads != 0 || b.Shape.VCPUs != 2 || b.Shape.MemoryBytes != 128*mib {
		t.Errorf("%d loads, booted %+v", r.loads, r.boots)
	}
	r.checkDisk(o, "disk")
	if got := r.homes[o.Route.Execution].Limits; got.MemoryBytes <= 128*mib || got.CPUMillis != 3000 {
		t.Errorf("its limits are %+v", got)
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// TestAMachineMayTouchAllOfTheMemoryThatItShares has one that is loaded from a memory of which only the first block is there: of each page that it lacks the kernel makes
// one for all and one for the machine, and charges the machine for both.
func TestAMachineMayTouchAllOfTheMemoryThatItShares(t *testing.T) {
	const have = 64 << 10
	limit := func(sealed bool) int64 {
		r := newRig(t)
		if sealed {
			path := filepath.Join(t.TempDir(), "mem")
			if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte{1}, have), 0o600), os.Truncate(path, ownSize.MemoryBytes)); err != nil {
				t.Fatal(err)
			}
			f, _, err := seal.Memory(path, promise.New(ownSize.MemoryBytes).Share)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r.sealed = f
		}
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		defer remove(t, table, o.Route)
		return r.homes[o.Route.Execution].Limits.MemoryBytes
	}
	if alone, shared := limit(false), limit(true); shared != alone+ownSize.MemoryBytes-have {
		t.Errorf("it may use %d bytes, and %d more than one with a memory of its own, want %d more", shared, shared-alone, ownSize.MemoryBytes-have)
	}
}

// checkOneSession checks that an execution has one session, which runs a program.
func checkOneSession(t *testing.T, table *Table, o Order, program string) {
	t.Helper()
	set, err := table.Sessions(o.Route)
	if err != nil {
		t.Fatal(err)
	}
	if l := set.List(); len(l) != 1 || len(l[0].Argv) == 0 || l[0].Argv[0] != program {
		t.Errorf("its sessions are %+v", l)
	}
}

func TestSessionsOfASnapshotGoOn(t *testing.T) {
	r := newRig(t)
	r.sessions = filepath.Join(r.dir, "kept")
	kept, err := session.Open(r.sessions, session.Limits{}, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Start(space.NewID(space.PrefixSession), &sessionv1.Spec{Argv: []string{"server"}}); err != nil {
		t.Fatal(err)
	}
	kept.Close()
	table := r.open()
	for range 2 { // each has records of its own
		o := order()
		ensure(t, table, o, space.ExecutionRunning)
		checkOneSession(t, table, o, "server")
		remove(t, table, o.Route)
	}
	if entries, err := os.ReadDir(r.sessions); err != nil || len(entries) != 1 {
		t.Errorf("the snapshot has %v, %v", entries, err)
	}
}

// read attaches to what is kept of a session, without anything to start.
func read(t *testing.T, table *Table, r space.Route, id string) (output string, last *sessionv1.AttachResponse, err error) {
	t.Helper()
	err = table.Attach(t.Context(), r, session.Request{Session: id}, func(e *sessionv1.AttachResponse) error {
		output += string(e.GetOutput().GetData())
		last = e
		return nil
	})
	return output, last, err
}

// TestOutputOutlivesItsExecution reads what sessions left after a stop, after a start, after the execution that they ran in was removed, and
// after daemons' deaths in between.
func TestOutputOutlivesItsExecution(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *rig, *Table, Order){
		"stopped": func(t *testing.T, _ *rig, table *Table, o Order) { stop(t, table, o.Route) },
		"lost": func(t *testing.T, r *rig, table *Table, o Order) {
			r.running()[0].die()
			r.awaitFreed(t, table, o, space.ExecutionLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			attach(t, table, o.Route, "true").awaitEnd(t)
			a := attach(t, table, o.Route, "wait")
			a.next(t)
			a.next(t)
			end(t, r, table, o)
			a.awaitEnd(t)
			set, err := table.Sessions(o.Route)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]string{} // by program
			for _, i := range set.List() {
				ids[i.Argv[0]] = i.Session
			}
			check := func(route space.Route) {
				t.Helper()
				output, last, err := read(t, table, route, ids["true"])
				if err != nil || output != "hello" || last.GetExit() == nil {
					t.Errorf("of one that had ended: %q, %v, %v", output, last, err)
				}
				output, last, err = read(t, table, route, ids["wait"])
				if err != nil || output != "hello" || last.GetExit().GetStopped() != (name == "stopped") || (last.GetLost() != nil) != (name == "lost") {
					t.Errorf("of one that ran: %q, %v, %v", output, last, err)
				}
				kept, err := table.Kept(route)
				if err != nil {
					t.Fatal(err)
				}
				if l := kept.List(); len(l) != 2 || l[0].Output != 5 || l[1].Output != 5 {
					t.Errorf("the list is %+v", l)
				}
			}
			check(o.Route)
			table.Close()
			table = r.open()
			check(o.Route)
			next := successor(o)
			ensure(t, table, next, space.ExecutionRunning)
			check(next.Route)
			if _, _, err := read(t, table, o.Route, ids["true"]); space.CodeOf(err) != space.CodeRouteStale {
				t.Errorf("with the earlier one's route: %v", err)
			}
			remove(t, table, o.Route)
			check(next.Route)
			table.Close()
			table = r.open()
			check(next.Route)
			if _, _, err := read(t, table, next.Route, space.NewID(space.PrefixSession)); space.CodeOf(err) != space.CodeSessionLost {
				t.Errorf("of a session that never was: %v", err)
			}
			remove(t, table, next.Route)
			r.checkNothingLeft()
			if _, err := table.Kept(next.Route); space.CodeOf(err) != space.CodeExecutionLost {
				t.Errorf("after the sandbox's end: %v", err)
			}
		})
	}
}

// TestSessionsOfNobodyAreRemoved has a daemon find the sessions of a sandbox that has no execution any more.
func TestSessionsOfNobodyAreRemoved(t *testing.T) {
	r := newRig(t)
	left := filepath.Join(r.dir, "sandboxes", "gone")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	r.open()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it's there: %v", err)
	}
}

// TestSessionsGoWithTheLastExecution removes a sandbox's executions at the same time, as deleting one does whose start has failed.
func TestSessionsGoWithTheLastExecution(t *testing.T) {
	r := newRig(t)
	table := r.open()
	for range 20 {
		o := order()
		ensure(t, table, o, space.ExecutionRunning)
		attach(t, table, o.Route, "true").awaitEnd(t)
		stop(t, table, o.Route)
		r.loadErr = errors.New("broken")
		next := successor(o)
		ensure(t, table, next, space.ExecutionFailed)
		r.loadErr = nil
		table.mu.Lock()
		kept := table.kept[o.Route.Sandbox]
		table.mu.Unlock()
		var removals sync.WaitGroup
		for _, x := range []Order{o, next} {
			removals.Go(func() { remove(t, table, x.Route) })
		}
		removals.Wait()
		if _, err := kept.open(); space.CodeOf(err) != space.CodeExecutionLost { // for who has found it before, and comes late
			t.Errorf("after the removal: %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(r.dir, "sandboxes")); err != nil || len(left) > 0 {
			t.Fatalf("left are the sessions of %v, %v", left, err)
		}
	}
	r.checkNothingLeft()
}

// TestSessionsStayForWhoIsLeft removes one execution while the daemon stops, which the other one doesn't survive in memory, but on file.
func TestSessionsStayForWhoIsLeft(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	attach(t, table, o.Route, "true").awaitEnd(t)
	stop(t, table, o.Route)
	next := successor(o)
	ensure(t, table, next, space.ExecutionRunning)
	table.mu.Lock()
	old := table.execs[o.Route.Execution]
	table.mu.Unlock()
	table.Close()
	if err := old.erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	table = r.open()
	kept, err := table.Kept(next.Route)
	if err != nil {
		t.Fatal(err)
	}
	if l := kept.List(); len(l) != 1 {
		t.Errorf("kept are %+v", l)
	}
}
