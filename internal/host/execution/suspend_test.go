package execution

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/vmm"
)

// awaitState waits until an execution is in a state.
func awaitState(t *testing.T, table *Table, o Order, want space.ExecutionState) {
	t.Helper()
	eventually(t, "the execution is "+string(want), func() bool { return stateOf(t, table, o) == want })
}

// awaitSnapshot waits until a snapshot is ready or has failed.
func (r *rig) awaitSnapshot(t *testing.T, id string) snapshot.Report {
	t.Helper()
	var last snapshot.Report
	eventually(t, "the snapshot is made", func() bool {
		last, _ = r.snapshots.Find(id)
		return last.State == snapshot.Ready || last.State == snapshot.Failed
	})
	return last
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came to: %s", what)
		}
	}
}

func suspend(t *testing.T, r *rig, table *Table, o Order, id string) snapshot.Report {
	t.Helper()
	if err := table.Suspend(t.Context(), o.Route, id); err != nil {
		t.Fatal(err)
	}
	awaitState(t, table, o, space.ExecutionSuspended)
	return r.awaitSnapshot(t, id)
}

// from is an order for an execution that is loaded from a snapshot: the next one of its sandbox.
func from(s snapshot.Report) Order {
	o := Order{Template: s.Template, Route: s.Route, Snapshot: s.Snapshot, SnapshotDigest: s.Digest}
	o.Route.Execution, o.Route.Epoch = space.NewID(space.PrefixExecution), s.Route.Epoch+1
	return o
}

// forkOf is an order for one of another sandbox.
func forkOf(s snapshot.Report) Order {
	o := from(s)
	o.Route.Sandbox, o.Route.Epoch = space.NewID(space.PrefixSandbox), 1
	return o
}

// client attaches to a session by its id, which it starts unless it has seen it start.
func client(t *testing.T, table *Table, r space.Route, id string, have uint64) attachment {
	t.Helper()
	a := attachment{events: make(chan *sessionv1.AttachResponse, 10), err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	q := session.Request{Session: id, Spec: &sessionv1.Spec{Argv: []string{"wait"}}, From: have, Resume: have > 0}
	go func() {
		a.err <- table.Attach(ctx, r, q, func(e *sessionv1.AttachResponse) error { a.events <- e; return nil })
	}()
	t.Cleanup(cancel)
	return a
}

// begin attaches to a new session, which runs, and returns its id.
func begin(t *testing.T, table *Table, r space.Route) (attachment, string) {
	t.Helper()
	id := space.NewID(space.PrefixSession)
	a := client(t, table, r, id, 0)
	a.next(t)
	if out := a.next(t).GetOutput(); string(out.GetData()) != "hello" {
		t.Fatalf("the session says %v", out)
	}
	return a, id
}

func snapshotID() string { return space.NewID(space.PrefixSnapshot) }

func TestPauseKeepsClientsAndRefusesWhatIsNew(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	a, _ := begin(t, table, o.Route)
	for range 2 {
		if err := table.Pause(t.Context(), o.Route); err != nil {
			t.Fatal(err)
		}
	}
	if m := r.running()[0]; stateOf(t, table, o) != space.ExecutionPaused || !m.paused.Load() {
		t.Fatalf("it's %s", stateOf(t, table, o))
	}
	if err := <-attach(t, table, o.Route, "wait").err; space.CodeOf(err) != space.CodeConflict {
		t.Errorf("a new session: %v", err)
	}
	if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("a call: %v", err)
	}
	for range 2 {
		if err := table.Resume(t.Context(), o.Route); err != nil {
			t.Fatal(err)
		}
	}
	if m := r.running()[0]; stateOf(t, table, o) != space.ExecutionRunning || m.paused.Load() {
		t.Fatalf("it's %s", stateOf(t, table, o))
	}
	if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); err != nil {
		t.Errorf("a call: %v", err)
	}
	stop(t, table, o.Route)
	if e := a.next(t).GetExit(); !e.GetStopped() {
		t.Errorf("the client that was there all the time was told %v", e)
	}
	if err := table.Pause(t.Context(), o.Route); space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("pausing a stopped one: %v", err)
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// TestANewDaemonLeavesThePausedPaused: nobody but who is asked to resumes one.
func TestANewDaemonLeavesThePausedPaused(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	if err := table.Pause(t.Context(), o.Route); err != nil {
		t.Fatal(err)
	}
	table.Close()
	r.running()[0].paused.Store(false) // as if it had died after a Resume, before that was on file
	table = r.open()
	if m := r.running()[0]; stateOf(t, table, o) != space.ExecutionPaused || !m.paused.Load() {
		t.Errorf("it's %s", stateOf(t, table, o))
	}
	stop(t, table, o.Route)
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

func TestAPausedMachineCanBeLostAndRemoved(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *rig, *Table, Order){
		"lost": func(t *testing.T, r *rig, table *Table, o Order) {
			r.running()[0].die()
			awaitState(t, table, o, space.ExecutionLost)
		},
		"removed": func(*testing.T, *rig, *Table, Order) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			if err := table.Pause(t.Context(), o.Route); err != nil {
				t.Fatal(err)
			}
			end(t, r, table, o)
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

func TestSuspendAndRestore(t *testing.T) {
	for _, before := range []space.ExecutionState{space.ExecutionRunning, space.ExecutionPaused} {
		t.Run(string(before), func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.scribble(o, "files")
			a, ses := begin(t, table, o.Route)
			if before == space.ExecutionPaused {
				if err := table.Pause(t.Context(), o.Route); err != nil {
					t.Fatal(err)
				}
			}
			s := suspend(t, r, table, o, snapshotID())
			if e := a.next(t).GetEnded(); e.GetReason() != reasonOfSuspend {
				t.Errorf("the client was told %v", e)
			}
			for range 2 { // the second time by another daemon
				if len(r.running()) > 0 || r.exists(o, diskName) || r.exists(o, memoryName) {
					t.Errorf("left are %d machines, files", len(r.running()))
				}
				eventually(t, "its enclosure is gone", func() bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					return len(r.homes) == 0
				})
				checkSuspended(t, table, o, s)
				kept := attachment{events: make(chan *sessionv1.AttachResponse, 10), err: make(chan error, 1)}
				kept.err <- table.Attach(t.Context(), o.Route, session.Request{Session: ses}, func(e *sessionv1.AttachResponse) error { kept.events <- e; return nil })
				if kept.next(t); string(kept.next(t).GetOutput().GetData()) != "hello" {
					t.Error("its output can't be read")
				}
				table.Close()
				table = r.open()
			}
			next := from(s)
			ensure(t, table, next, space.ExecutionRunning)
			r.checkDisk(next, "files")
			if b, err := os.ReadFile(r.path(next, memoryName)); err != nil || string(b) != "changed" {
				t.Errorf("the memory is %q, %v", b, err)
			}
			remove(t, table, o.Route)
			again := client(t, table, next.Route, ses, 5)
			stop(t, table, next.Route)
			if e := again.next(t).GetExit(); !e.GetStopped() || e.GetOffset() != 5 {
				t.Errorf("the client that came back was told %v", e)
			}
			remove(t, table, next.Route)
			if err := r.snapshots.Remove(s.Snapshot); err != nil {
				t.Fatal(err)
			}
			r.checkNothingLeft()
		})
	}
}

const reasonOfSuspend = "suspended"

func checkSuspended(t *testing.T, table *Table, o Order, s snapshot.Report) {
	t.Helper()
	for _, got := range table.Reports() {
		if got.Route == o.Route && (got.State != space.ExecutionSuspended || got.Snapshot != s.Snapshot) {
			t.Errorf("it's told as %+v", got)
		}
	}
	if err := table.Suspend(t.Context(), o.Route, s.Snapshot); err != nil {
		t.Errorf("suspended again: %v", err)
	}
	if err := table.Resume(t.Context(), o.Route); space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("resumed: %v", err)
	}
	if err := <-attach(t, table, o.Route, "wait").err; space.CodeOf(err) != space.CodeConflict {
		t.Errorf("a new session: %v", err)
	}
}

func TestAForkHasItsOwnSessions(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	a, ses := begin(t, table, o.Route)
	s := r.takeFull(t, table, o)
	forks := []Order{forkOf(s), forkOf(s)}
	seen := map[string]bool{ses: true}
	for _, f := range forks {
		got := ensure(t, table, f, space.ExecutionRunning)
		if len(got.Sessions) != 1 || got.Sessions[0].Of != ses || seen[got.Sessions[0].Session] {
			t.Fatalf("its sessions are %v", got.Sessions)
		}
		id := got.Sessions[0].Session
		seen[id] = true
		c := client(t, table, f.Route, id, 5)
		stop(t, table, f.Route)
		if e := c.next(t).GetExit(); !e.GetStopped() {
			t.Errorf("its client was told %v", e)
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.asked), func(id string) bool { return id != ses })); n < 3 {
		t.Errorf("guests were asked for %v, and know the session as %s", r.asked, ses)
	}
	stop(t, table, o.Route)
	if e := a.next(t).GetExit(); !e.GetStopped() {
		t.Errorf("the source's client was told %v", e)
	}
	for _, x := range append(forks, o) {
		remove(t, table, x.Route)
	}
	r.checkNothingLeft()
}

// TestAChildLeavesItsParentAlone: what it writes into its disk and memory is in neither the snapshot, nor its source, nor another child.
func TestAChildLeavesItsParentAlone(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "parent")
	s := r.takeFull(t, table, o)
	first, second := forkOf(s), forkOf(s)
	ensure(t, table, first, space.ExecutionRunning)
	r.scribble(first, "child!")
	if err := os.WriteFile(r.path(first, memoryName), []byte("its own"), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, table, second, space.ExecutionRunning) // refused if the snapshot isn't what it was
	r.checkDisk(o, "parent")
	r.checkDisk(second, "parent")
	if b, err := os.ReadFile(r.path(second, memoryName)); err != nil || string(b) != "changed" {
		t.Errorf("the memory of another child is %q, %v", b, err)
	}
	for _, x := range []Order{o, first, second} {
		remove(t, table, x.Route)
	}
	r.checkNothingLeft()
}

// takeFull takes a snapshot of an execution that goes on.
func (r *rig) takeFull(t *testing.T, table *Table, o Order) snapshot.Report {
	t.Helper()
	id := snapshotID()
	for range 2 {
		if err := table.TakeSnapshot(t.Context(), o.Route, id, snapshot.Full); err != nil {
			t.Fatal(err)
		}
	}
	s := r.awaitSnapshot(t, id)
	if s.State != snapshot.Ready || s.Pause <= 0 {
		t.Fatalf("the snapshot is %+v", s)
	}
	awaitState(t, table, o, space.ExecutionRunning)
	return s
}

// TestNoOutputIsWrittenOutWhileItStandsStill stops a snapshot when the machine is about to: what a session has printed is on the disk by then, on a real volume.
func TestNoOutputIsWrittenOutWhileItStandsStill(t *testing.T) {
	r := newRig(t)
	v := disk.Volume{Path: filepath.Join(r.dir, "volume"), Image: filepath.Join(r.dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := os.Symlink(v.Path, filepath.Join(r.dir, "sandboxes")); err != nil {
		t.Fatal(err)
	}
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	begin(t, table, o.Route)
	found, err := filepath.Glob(filepath.Join(v.Path, space.HostLabel(o.Route.Sandbox), space.HostLabel(o.Route.Execution), "*", "*.seg"))
	if err != nil || len(found) != 1 {
		t.Fatalf("its output is in %v, %v", found, err)
	}
	f, err := os.OpenFile(found[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	onDisk := func() bool {
		bytes := int64(0)
		if err := disk.Extents(t.Context(), found[0], func(x disk.Extent) {
			if x.Place >= 0 {
				bytes += x.Bytes
			}
		}); err != nil {
			t.Fatal(err)
		}
		return bytes >= size
	}
	eventually(t, "it prints more than the kernel has written out by itself", func() bool {
		if _, err := f.Write(make([]byte, mib)); err != nil { // much more than goes into a directory
			t.Fatal(err)
		}
		size += mib
		return !onDisk()
	})
	there := r.stopAt("pause")
	if err := table.TakeSnapshot(t.Context(), o.Route, snapshotID(), snapshot.Full); err != nil {
		t.Fatal(err)
	}
	<-there
	if !onDisk() {
		t.Error("a session's output isn't on the disk when the machine stands still")
	}
	remove(t, table, o.Route)
}

// TestAMemoryBeginsAsTheOneSavedBefore, in this life of the daemon and the next, of what was loaded and what was booted; the first, and one before which there is none any
// more, begin as what the machine was loaded from.
func TestAMemoryBeginsAsTheOneSavedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		size   rootfs.Size
		memory string // of a machine that wasn't saved
	}{"loaded": {memory: "mem"}, "booted": {size: rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 2 * mib}}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			o.Size = c.size
			ensure(t, table, o, space.ExecutionRunning)
			taken := []snapshot.Report{r.takeFull(t, table, o), r.takeFull(t, table, o)}
			table.Close()
			table = r.open()
			awaitState(t, table, o, space.ExecutionRunning)
			taken = append(taken, r.takeFull(t, table, o))
			for _, s := range taken {
				if err := r.snapshots.Remove(s.Snapshot); err != nil {
					t.Fatal(err)
				}
			}
			last := suspend(t, r, table, o, snapshotID())
			want := []saveOf{{c.memory, ""}, {"changed", taken[0].Snapshot}, {"changed", taken[1].Snapshot}, {c.memory, ""}}
			if !slices.Equal(r.saves, want) {
				t.Errorf("the memories began as %v, want %v", r.saves, want)
			}
			next := from(last)
			ensure(t, table, next, space.ExecutionRunning)
			for _, x := range []Order{o, next} {
				remove(t, table, x.Route)
			}
			r.checkNothingLeft()
		})
	}
}

func TestRollBack(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "before")
	a, old := begin(t, table, o.Route)
	s := r.takeFull(t, table, o)
	later, young := begin(t, table, o.Route)
	r.scribble(o, "after ")
	next := from(s)
	got := ensure(t, table, next, space.ExecutionRunning)
	if len(got.Sessions) != 1 || got.Sessions[0] != (session.Copy{Session: old, Of: old}) {
		t.Errorf("its sessions are %v", got.Sessions)
	}
	r.checkDisk(next, "before")
	if e := a.next(t).GetEnded(); e.GetReason() != "replaced" {
		t.Errorf("the client of the session that goes on was told %v", e)
	}
	if e := later.next(t).GetLost(); e.GetError().GetCode() != string(space.CodeSessionLost) {
		t.Errorf("the client of the session that doesn't was told %v", e)
	}
	remove(t, table, o.Route)
	c := client(t, table, next.Route, old, 5)
	stop(t, table, next.Route)
	if e := c.next(t).GetExit(); !e.GetStopped() {
		t.Errorf("the client that came back was told %v", e)
	}
	if err := table.Attach(t.Context(), next.Route, session.Request{Session: young}, func(*sessionv1.AttachResponse) error { return nil }); err != nil {
		t.Errorf("what is kept of the lost session: %v", err)
	}
	remove(t, table, next.Route)
	r.checkNothingLeft()
}

func TestDiskSnapshots(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	a, _ := begin(t, table, o.Route)
	var taken []snapshot.Report
	for _, step := range []struct {
		text string
		do   func()
	}{
		{"running", func() {}},
		{"paused ", func() { table.Pause(t.Context(), o.Route) }},
		{"stopped", func() { stop(t, table, o.Route) }},
	} {
		step.do()
		r.scribble(o, step.text)
		before := stateOf(t, table, o)
		id := snapshotID()
		if err := table.TakeSnapshot(t.Context(), o.Route, id, snapshot.Disk); err != nil {
			t.Fatal(err)
		}
		s := r.awaitSnapshot(t, id)
		if s.State != snapshot.Ready || stateOf(t, table, o) != before {
			t.Errorf("of one that is %s: %+v, and it's %s", before, s, stateOf(t, table, o))
		}
		taken = append(taken, s)
	}
	if e := a.next(t).GetExit(); !e.GetStopped() {
		t.Errorf("the client was told %v", e)
	}
	if err := table.TakeSnapshot(t.Context(), o.Route, snapshotID(), snapshot.Full); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("the memory of a stopped one: %v", err)
	}
	for i, text := range []string{"running", "paused ", "stopped"} {
		f := forkOf(taken[i])
		f.Size = rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 2 * mib}
		ensure(t, table, f, space.ExecutionRunning)
		r.checkDisk(f, text)
		remove(t, table, f.Route)
	}
	if len(r.boots) != 3 {
		t.Errorf("%d of them booted", len(r.boots))
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

func TestWhatCantBeLoadedStartsNothing(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	s := r.takeFull(t, table, o)
	for name, c := range map[string]struct {
		change func(*Order)
		want   space.Code
	}{
		"another digest": {func(o *Order) { o.SnapshotDigest = "sha256:0" }, space.CodeSnapshotUnusable},
		"an unknown one": {func(o *Order) { o.Snapshot = snapshotID() }, space.CodeSnapshotUnusable},
		"another shape":  {func(o *Order) { o.Size = rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 2 * mib} }, space.CodeShapeUnavailable},
	} {
		f := forkOf(s)
		c.change(&f)
		loads := r.loads
		if got := ensure(t, table, f, space.ExecutionFailed); space.CodeOf(got.Err) != c.want || r.loads != loads {
			t.Errorf("%s: %v, %d loads", name, got.Err, r.loads-loads)
		}
		remove(t, table, f.Route)
	}
	cold := forkOf(s)
	cold.Cold, cold.Size = true, rootfs.Size{VCPUs: 2, MemoryBytes: 128 * mib, DiskBytes: 2 * mib}
	ensure(t, table, cold, space.ExecutionRunning)
	remove(t, table, cold.Route)
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// suspendSteps are those of a suspend at which something may happen. The snapshot is all that there is in the last two.
var suspendSteps = []string{"rest", "pause", "save", "finish", "freeze", "kill", "free"}

// suspended tells whether a suspend is done, whatever happens in a step.
func suspended(step string) bool { return step == "kill" || step == "free" }

// TestASuspendThatFailsChangesNothing lets each step fail.
func TestASuspendThatFailsChangesNothing(t *testing.T) {
	for _, step := range []string{"pause", "save", "finish", "freeze"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			a, _ := begin(t, table, o.Route)
			r.failAt(step)
			id := snapshotID()
			if err := table.Suspend(t.Context(), o.Route, id); err != nil {
				t.Fatal(err)
			}
			if s := r.awaitSnapshot(t, id); s.State != snapshot.Failed {
				t.Errorf("the snapshot is %+v", s)
			}
			awaitState(t, table, o, space.ExecutionRunning)
			if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); err != nil {
				t.Errorf("a call afterwards: %v", err)
			}
			suspend(t, r, table, o, snapshotID())
			if e := a.next(t).GetEnded(); e.GetReason() != reasonOfSuspend {
				t.Errorf("the client was told %v", e)
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

// TestSuspendedSaysThatTheMachineIsGone: it isn't said while the machine ends.
func TestSuspendedSaysThatTheMachineIsGone(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	there := r.stopAt("kill")
	id := snapshotID()
	if err := table.Suspend(t.Context(), o.Route, id); err != nil {
		t.Fatal(err)
	}
	<-there
	if s := r.awaitSnapshot(t, id); s.State != snapshot.Ready {
		t.Errorf("the snapshot is %+v", s)
	}
	if got := stateOf(t, table, o); got != space.ExecutionRunning {
		t.Errorf("with a machine it's %s", got)
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// TestAMachineThatDiesInASuspendIsLost, and its snapshot says so.
func TestAMachineThatDiesInASuspendIsLost(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.mu.Lock()
	r.at = "save"
	r.stall = func(context.Context) error {
		r.running()[0].die()
		return vmm.ErrGone
	}
	r.mu.Unlock()
	id := snapshotID()
	if err := table.Suspend(t.Context(), o.Route, id); err != nil {
		t.Fatal(err)
	}
	if s := r.awaitSnapshot(t, id); s.State != snapshot.Failed || space.CodeOf(s.Err) != space.CodeExecutionLost {
		t.Errorf("the snapshot is %+v", s)
	}
	awaitState(t, table, o, space.ExecutionLost)
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

func (r *rig) failAt(step string) {
	r.atStep(step, func() error { return errors.New("broken") })
}

// TestASuspendIsDoneOrWasNever ends the daemon in each step, by a signal that it obeys and by one that it doesn't: then what it still does is undone.
func TestASuspendIsDoneOrWasNever(t *testing.T) {
	for before, steps := range map[space.ExecutionState][]string{
		space.ExecutionRunning: suspendSteps, space.ExecutionPaused: suspendSteps[2:], // it has been through the first two, see below
	} {
		for _, step := range steps {
			for _, how := range []string{"TERM", "KILL"} {
				t.Run(step+" "+how+" "+string(before), func(t *testing.T) { endInSuspend(t, step, how, before) })
			}
		}
	}
}

// TestAPausedOneIsSuspendedAsItStands: its guest is asked nothing, and its machine isn't paused again.
func TestAPausedOneIsSuspendedAsItStands(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	if err := table.Pause(t.Context(), o.Route); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.mute = true
	r.mu.Unlock()
	r.failAt("pause")
	suspend(t, r, table, o, snapshotID())
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

// TestASnapshotIsDurableInTimeOrNotAtAll has a disk that takes nothing: a suspend gives up, and the sandbox goes on; a snapshot of one that runs fails.
func TestASnapshotIsDurableInTimeOrNotAtAll(t *testing.T) {
	for name, begin := range map[string]func(*Table, context.Context, space.Route, string) error{
		"suspend": (*Table).Suspend,
		"snapshot": func(t *Table, ctx context.Context, r space.Route, id string) error {
			return t.TakeSnapshot(ctx, r, id, snapshot.Full)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			table.sealTime = func(rootfs.Size) time.Duration { return 10 * time.Millisecond }
			ensure(t, table, o, space.ExecutionRunning)
			there := r.stopAt("finish") // until its context ends
			id := snapshotID()
			if err := begin(table, t.Context(), o.Route, id); err != nil {
				t.Fatal(err)
			}
			<-there
			if s := r.awaitSnapshot(t, id); s.State != snapshot.Failed || space.CodeOf(s.Err) != space.CodeTimeout {
				t.Errorf("the snapshot is %+v", s)
			}
			awaitState(t, table, o, space.ExecutionRunning)
			if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); err != nil {
				t.Errorf("a call afterwards: %v", err)
			}
			table.sealTime = sealTime
			suspend(t, r, table, o, snapshotID())
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

func endInSuspend(t *testing.T, step, how string, before space.ExecutionState) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	r.scribble(o, "files")
	_, ses := begin(t, table, o.Route)
	if before == space.ExecutionPaused {
		if err := table.Pause(t.Context(), o.Route); err != nil {
			t.Fatal(err)
		}
	}
	there := r.stopInSuspend(step)
	id := snapshotID()
	if err := table.Suspend(t.Context(), o.Route, id); err != nil {
		t.Fatal(err)
	}
	<-there
	r.endLife(t, table, how)
	table = r.open()
	if s, ok := r.snapshots.Find(id); (ok && s.State == snapshot.Ready) != suspended(step) {
		t.Errorf("the snapshot is %+v, there: %v", s, ok)
	}
	if suspended(step) {
		awaitState(t, table, o, space.ExecutionSuspended)
	} else if got := stateOf(t, table, o); got != before {
		t.Errorf("it's %s, want %s", got, before)
	} else {
		eventually(t, "the machine is "+string(before), func() bool { return r.running()[0].paused.Load() == (before == space.ExecutionPaused) })
	}
	s := suspend(t, r, table, o, id)
	next := from(s)
	ensure(t, table, next, space.ExecutionRunning)
	r.checkDisk(next, "files")
	c := client(t, table, next.Route, ses, 5)
	stop(t, table, next.Route)
	if e := c.next(t).GetExit(); !e.GetStopped() {
		t.Errorf("the client that came back was told %v", e)
	}
	remove(t, table, o.Route)
	remove(t, table, next.Route)
	r.checkNothingLeft()
}

// stopInSuspend makes the next suspend wait in a step.
func (r *rig) stopInSuspend(step string) <-chan struct{} {
	if step != "rest" {
		return r.stopAt(step)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf = make(chan struct{})
	return r.deaf
}

// endLife ends a life of the daemon. One that is killed does nothing more: its files, and whether its machines stand still, are what they were then.
func (r *rig) endLife(t *testing.T, table *Table, how string) {
	t.Helper()
	frame := filepath.Join(t.TempDir(), "frame")
	if how == "KILL" {
		r.copyAll(t, frame)
	}
	still := map[*testMachine]bool{}
	for _, m := range r.running() {
		still[m] = m.paused.Load()
	}
	r.die()
	table.Close()
	r.snapshots.Close()
	r.mu.Lock()
	r.deaf = nil
	r.mu.Unlock()
	if how == "KILL" {
		if err := errors.Join(os.RemoveAll(r.dir), os.CopyFS(r.dir, os.DirFS(frame))); err != nil {
			t.Fatal(err)
		}
		for m, was := range still {
			m.paused.Store(was)
		}
	}
}

// copyAll copies all files to another directory. What goes on may rename one at that moment: then it's copied anew.
func (r *rig) copyAll(t *testing.T, to string) {
	t.Helper()
	const tries = 100
	for try := 1; ; try++ {
		err := os.CopyFS(to, os.DirFS(r.dir))
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || try == tries {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAStopOvertakesASuspend unless that has come so far that the snapshot is all there is.
func TestAStopOvertakesASuspend(t *testing.T) {
	for _, step := range suspendSteps {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.scribble(o, "files")
			there := r.stopInSuspend(step)
			id := snapshotID()
			if err := table.Suspend(t.Context(), o.Route, id); err != nil {
				t.Fatal(err)
			}
			<-there
			r.mu.Lock()
			r.deaf = nil
			r.mu.Unlock()
			if step == "freeze" { // which nothing but its own end ends
				defer r.die()
				r.die()
			}
			if err := table.Stop(t.Context(), o.Route, 0); (err != nil) != (step == "free") { // then there's no machine any more
				t.Fatal(err)
			}
			s := r.awaitSnapshot(t, id)
			if s.State == snapshot.Ready {
				awaitState(t, table, o, space.ExecutionSuspended)
			} else {
				awaitState(t, table, o, space.ExecutionStopped)
				r.checkDisk(o, "files")
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

func TestARemovalOvertakesASuspend(t *testing.T) {
	for _, step := range suspendSteps {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			there := r.stopInSuspend(step)
			if err := table.Suspend(t.Context(), o.Route, snapshotID()); err != nil {
				t.Fatal(err)
			}
			<-there
			if step == "freeze" {
				r.die()
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

// TestAMachineThatIsKilledMeanwhileIsLost kills machines in each step that needs them: whoever waits for the outcome is told so, and not what broke first.
func TestAMachineThatIsKilledMeanwhileIsLost(t *testing.T) {
	verbs := map[string]func(*testing.T, *rig, *Table, Order) error{
		"suspend": func(t *testing.T, r *rig, table *Table, o Order) error {
			id := snapshotID()
			if err := table.Suspend(t.Context(), o.Route, id); err != nil {
				t.Fatal(err)
			}
			return r.awaitSnapshot(t, id).Err
		},
		"a full snapshot": taken(snapshot.Full),
		"a disk snapshot": taken(snapshot.Disk),
		"pause":           func(t *testing.T, _ *rig, table *Table, o Order) error { return table.Pause(t.Context(), o.Route) },
	}
	atCall := func(which func(*guestv1.Quiesce) bool) func(*rig) {
		return func(r *rig) { r.slain = which }
	}
	atStep := func(name string) func(*rig) {
		return func(r *rig) {
			r.at, r.stall = name, func(context.Context) error {
				r.running()[0].slay()
				return unix.ESRCH
			}
		}
	}
	writesOut := atCall((*guestv1.Quiesce).GetWriteOutOnly)
	rests := atCall(func(q *guestv1.Quiesce) bool { return !q.GetWriteOutOnly() })
	for name, c := range map[string]struct {
		verb string
		kill func(*rig)
	}{
		"a suspend's rest":                {"suspend", rests},
		"a suspend's pause":               {"suspend", atStep("pause")},
		"a suspend's save":                {"suspend", atStep("save")},
		"a full snapshot's first writing": {"a full snapshot", writesOut},
		"a full snapshot's rest":          {"a full snapshot", rests},
		"a full snapshot's save":          {"a full snapshot", atStep("save")},
		"a disk snapshot's first writing": {"a disk snapshot", writesOut},
		"a disk snapshot's rest":          {"a disk snapshot", rests},
		"a pause":                         {"pause", atStep("pause")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.mu.Lock()
			c.kill(r)
			r.mu.Unlock()
			if err := verbs[c.verb](t, r, table, o); space.CodeOf(err) != space.CodeExecutionLost {
				t.Errorf("it says %v", err)
			}
			awaitState(t, table, o, space.ExecutionLost)
		})
	}
}

// taken takes a snapshot, and returns why it failed.
func taken(k snapshot.Kind) func(*testing.T, *rig, *Table, Order) error {
	return func(t *testing.T, r *rig, table *Table, o Order) error {
		id := snapshotID()
		if err := table.TakeSnapshot(t.Context(), o.Route, id, k); err != nil {
			t.Fatal(err)
		}
		return r.awaitSnapshot(t, id).Err
	}
}
