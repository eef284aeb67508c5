package execution

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
)

func ensure(t *testing.T, table *Table, o Order, want space.ExecutionState) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*bootTimeout)
	defer cancel()
	r, err := table.Ensure(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != want || r.Route != o.Route {
		t.Fatalf("got %+v, want %s", r, want)
	}
	return r
}

func remove(t *testing.T, table *Table, r space.Route) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := table.Remove(ctx, r); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) exists(o Order, name string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, "executions", space.HostLabel(o.Route.Execution), name))
	return err == nil
}

// awaitState waits until the execution is in a state and everything but its disk is free.
func (r *rig) awaitFreed(t *testing.T, table *Table, o Order, want space.ExecutionState) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r.mu.Lock()
		homes := len(r.homes)
		r.mu.Unlock()
		if got := table.Reports()[0].State; got == want && homes == 0 && !r.exists(o, memoryName) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it's %+v with %d enclosures", table.Reports()[0], homes)
		}
		pause(t.Context(), time.Millisecond)
	}
}

func TestLifeOfAnExecution(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { ensure(t, table, o, space.ExecutionRunning) })
	}
	all.Wait()
	if r.loads != 1 {
		t.Fatalf("%d machines were made", r.loads)
	}
	a := attach(t, table, o.Route, "true")
	if a.next(t).GetStarted() == nil || string(a.next(t).GetOutput().GetData()) != "hello" || a.next(t).GetExit() == nil {
		t.Fatal("the session went wrong")
	}
	if got, want := r.running()[0].name.Load(), "sbx-"+space.HostLabel(o.Route.Sandbox); got != want {
		t.Errorf("the guest's name is %q, want %q", got, want)
	}
	remove(t, table, o.Route)
	remove(t, table, o.Route)
	r.checkNothingLeft()
	if _, err := table.Ensure(t.Context(), o); space.CodeOf(err) != space.CodeConflict {
		t.Fatalf("ensuring a removed execution: %v", err)
	}
}

func TestOnlyTheWholeRouteMatches(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	for name, c := range map[string]struct {
		change func(*space.Route)
		want   space.Code
	}{
		"epoch":     {func(r *space.Route) { r.Epoch++ }, space.CodeRouteStale},
		"sandbox":   {func(r *space.Route) { r.Sandbox = space.NewID(space.PrefixSandbox) }, space.CodeRouteDenied},
		"execution": {func(r *space.Route) { r.Execution = space.NewID(space.PrefixExecution) }, space.CodeRouteStale},
		"node":      {func(r *space.Route) { r.Placement.Node = "other" }, space.CodeRouteStale},
	} {
		route := o.Route
		c.change(&route)
		a := attach(t, table, route, "true")
		if err := <-a.err; space.CodeOf(err) != c.want {
			t.Errorf("%s: attach: %v, want %s", name, err, c.want)
		}
		if name != "execution" {
			if err := table.Remove(t.Context(), route); space.CodeOf(err) != c.want {
				t.Errorf("%s: remove: %v, want %s", name, err, c.want)
			}
		}
	}
	stranger := order()
	if err := <-attach(t, table, stranger.Route, "true").err; space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("an execution that isn't there: %v", err)
	}
}

func TestDeadMachineIsALostExecution(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	a := attach(t, table, o.Route, "wait")
	a.next(t)
	a.next(t)
	r.running()[0].die()
	if e := a.next(t).GetLost().GetError(); e.GetCode() != string(space.CodeExecutionLost) {
		t.Fatalf("the client was told %v", e)
	}
	r.awaitFreed(t, table, o, space.ExecutionLost)
	if !r.exists(o, diskName) {
		t.Error("the disk is gone")
	}
	ensure(t, table, o, space.ExecutionLost)
	table.Close()
	table = r.open()
	lost := ensure(t, table, o, space.ExecutionLost)
	if space.CodeOf(lost.Err) != space.CodeExecutionLost {
		t.Errorf("after a restart its error is %v", lost.Err)
	}
	if err := <-attach(t, table, o.Route, "true").err; space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("a new session: %v", err)
	}
	remove(t, table, o.Route)
	r.checkNothingLeft()
}

func TestFailedCreationIsFreedAndStaysFailed(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*rig, *Order)
		want    space.Code
	}{
		"no template":  {func(r *rig, _ *Order) { r.template = space.Errorf(space.CodeTemplateNotReady, "no") }, space.CodeTemplateNotReady},
		"full volume":  {func(r *rig, _ *Order) { r.full = space.Errorf(space.CodeCapacity, "full") }, space.CodeCapacity},
		"no reserve":   {func(r *rig, _ *Order) { r.noKeep = space.Errorf(space.CodeCapacity, "no room to suspend it") }, space.CodeCapacity},
		"no memory":    {func(_ *rig, o *Order) { o.Size = rootfs.Size{VCPUs: 1, DiskBytes: mib} }, space.CodeShapeUnavailable},
		"many CPUs":    {func(_ *rig, o *Order) { o.Size = rootfs.Size{VCPUs: 5, MemoryBytes: 128 * mib, DiskBytes: mib} }, space.CodeShapeUnavailable},
		"small disk":   {func(_ *rig, o *Order) { o.Size = rootfs.Size{VCPUs: 1, MemoryBytes: 128 * mib} }, space.CodeShapeUnavailable},
		"driver":       {func(r *rig, _ *Order) { r.loadErr = errors.New("broken") }, space.CodeInternal},
		"incompatible": {func(r *rig, _ *Order) { r.loadErr = vmm.ErrIncompatible }, space.CodeTemplateNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			c.prepare(r, &o)
			failed := ensure(t, table, o, space.ExecutionFailed)
			if space.CodeOf(failed.Err) != c.want {
				t.Errorf("its error is %v", failed.Err)
			}
			r.template, r.loadErr, r.full, r.noKeep = nil, nil, nil, nil
			ensure(t, table, o, space.ExecutionFailed)
			if len(r.homes) > 0 || len(r.running()) > 0 {
				t.Errorf("left are enclosures %v and %d machines", r.homes, len(r.running()))
			}
			if name == "incompatible" && len(r.rejected) != 1 {
				t.Errorf("the template wasn't rejected")
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

func TestGuestThatNeverAnswersCostsADeadline(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.t, r.mute = t, true
		table, o := r.open(), order()
		failed := ensure(t, table, o, space.ExecutionFailed)
		if space.CodeOf(failed.Err) != space.CodeTimeout {
			t.Errorf("its error is %v", failed.Err)
		}
		remove(t, table, o.Route)
		r.checkNothingLeft()
		table.Close()
	})
}

// TestGuestThatBreaksEachLinkIsGreetedSlower: it costs no more than one that doesn't answer, and is reached again when it has come to its senses.
func TestGuestThatBreaksEachLinkIsGreetedSlower(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.t = t
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		time.Sleep(time.Minute) // bubble's time: the first link is an old one
		m := r.machines[1]
		r.fickle.Store(1000)
		before := m.dials.Load()
		m.port.conn().Close()
		time.Sleep(time.Minute)
		if got, most := m.dials.Load()-before, int32(time.Minute/longestBackOff)+10; got < 2 || got > most {
			t.Errorf("it was greeted %d times in a minute, want at most %d", got, most)
		}
		r.fickle.Store(0)
		a := attach(t, table, o.Route, "true")
		if a.next(t).GetStarted() == nil {
			t.Error("no session in a sandbox whose guest keeps its links again")
		}
		remove(t, table, o.Route)
		r.checkNothingLeft()
		table.Close()
	})
}

// TestMachineThatDoesntComeUpIsTriedOnceMore has machines that end while they start, or when they're greeted, and machines that say nothing.
func TestMachineThatDoesntComeUpIsTriedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		dead, dying, dumb int
		booted            bool
		want              space.ExecutionState
		code              space.Code // of one that has failed
		made              int
	}{
		"the first ends":                  {dying: 1, want: space.ExecutionRunning, made: 2},
		"the first ends, booted":          {dying: 1, booted: true, want: space.ExecutionRunning, made: 2},
		"the first says nothing":          {dumb: 1, want: space.ExecutionRunning, made: 2},
		"both end":                        {dying: 2, want: space.ExecutionFailed, code: space.CodeGuest, made: 2},
		"both end, booted":                {dying: 2, booted: true, want: space.ExecutionFailed, code: space.CodeGuest, made: 2},
		"the first doesn't start":         {dead: 1, want: space.ExecutionRunning, made: 2},
		"the first doesn't start, booted": {dead: 1, booted: true, want: space.ExecutionRunning, made: 2},
		"none starts":                     {dead: 2, want: space.ExecutionFailed, code: space.CodeInternal, made: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			synctest.Test(t, func(t *testing.T) {
				r.t, r.dead, r.dying, r.dumb = t, c.dead, c.dying, c.dumb
				table, o := r.open(), order()
				if c.booted {
					o.Size = rootfs.Size{VCPUs: 2, MemoryBytes: 128 << 20, DiskBytes: 1 << 20}
				}
				began := time.Now()
				got := ensure(t, table, o, c.want)
				if c.want == space.ExecutionFailed && space.CodeOf(got.Err) != c.code {
					t.Errorf("its error is %v", got.Err)
				}
				if took := time.Since(began); took > loadTimeout*3/4 {
					t.Errorf("it took %s", took)
				}
				if len(r.machines) != c.made {
					t.Errorf("%d machines were made, want %d", len(r.machines), c.made)
				}
				remove(t, table, o.Route)
				r.checkNothingLeft()
				table.Close()
			})
		})
	}
}

func TestNewDaemonFindsItsMachines(t *testing.T) {
	r := newRig(t)
	table, lives, dies := r.open(), order(), order()
	ensure(t, table, lives, space.ExecutionRunning)
	ensure(t, table, dies, space.ExecutionRunning)
	var victim *testMachine
	for _, m := range r.running() {
		if r.homes[dies.Route.Execution].UID == m.uid {
			victim = m
		}
	}
	table.Close()
	victim.die()
	stray := filepath.Join(r.dir, "executions", "stray")
	if err := os.MkdirAll(stray, 0o700); err != nil {
		t.Fatal(err)
	}
	table = r.open()
	ensure(t, table, lives, space.ExecutionRunning)
	ensure(t, table, dies, space.ExecutionLost)
	if _, err := os.Lstat(stray); err == nil {
		t.Error("a directory without a record is still there")
	}
	a := attach(t, table, lives.Route, "true")
	if a.next(t).GetStarted() == nil {
		t.Error("no session in a machine that was found again")
	}
	if r.loads != 2 {
		t.Errorf("%d machines were made", r.loads)
	}
	remove(t, table, lives.Route)
	remove(t, table, dies.Route)
	r.checkNothingLeft()
}

func TestUnreadableRecordCostsOneExecution(t *testing.T) {
	r := newRig(t)
	table, broken, whole := r.open(), order(), order()
	ensure(t, table, broken, space.ExecutionRunning)
	ensure(t, table, whole, space.ExecutionRunning)
	table.Close()
	record := filepath.Join(r.dir, "executions", space.HostLabel(broken.Route.Execution), recordName)
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		table = r.open()
		if got := table.Reports(); len(got) != 1 || got[0].Route != whole.Route {
			t.Fatalf("the executions are %+v", got)
		}
		table.Close()
	}
}

// steps are where a creation can be interrupted.
var steps = []string{"enclose", "load", "greet"}

func TestInterruptedCreationIsDoneAgain(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			there := r.stopAt(step)
			ctx, cancel := context.WithCancel(t.Context())
			go table.Ensure(ctx, o)
			<-there
			cancel()
			table.Close()
			table = r.open()
			ensure(t, table, o, space.ExecutionRunning)
			if n := len(r.running()); n != 1 {
				t.Errorf("%d machines run", n)
			}
			remove(t, table, o.Route)
			r.checkNothingLeft()
		})
	}
}

func TestRemovalInterruptsACreation(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			there := r.stopAt(step)
			ensured := make(chan error, 1)
			go func() {
				_, err := table.Ensure(t.Context(), o)
				ensured <- err
			}()
			<-there
			remove(t, table, o.Route)
			if err := <-ensured; space.CodeOf(err) != space.CodeConflict {
				t.Errorf("the creation ended with %v", err)
			}
			r.checkNothingLeft()
		})
	}
}

func TestBrokenLinkIsMadeAgain(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	table.mu.Lock()
	l := table.execs[o.Route.Execution].link
	table.mu.Unlock()
	l.Close()
	a := attach(t, table, o.Route, "true")
	if a.next(t).GetStarted() == nil {
		t.Fatal("no session after the link broke")
	}
}
