package manager

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/node/relay"
	"github.com/space-platform/space/internal/peer"
)

func (h *fakeHost) count(of map[string]int, r space.Route) int {
	h.Lock()
	defer h.Unlock()
	return of[r.Execution]
}

func TestAnExecutionsLife(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.control.unwant(e)
	r.control.hears(t, e, "")
	r.host.Lock()
	if len(r.host.machines) != 0 || r.host.created[e.Execution] != 1 {
		t.Errorf("the host has %v, made %v", r.host.machines, r.host.created)
	}
	r.host.Unlock()
	// The tombstone goes with the answer to the report that leaves the execution out; that answer is here when another order is done.
	other := r.running(t)
	r.control.hears(t, other, space.ExecutionRunning)
	r.forgotten(t, e)
}

// TestKilledAtEachStep stops the manager while the host is in the middle of a step, and starts it again on the same records.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []string{"before ensure", "after ensure", "before remove", "after remove"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			reached, held := make(chan struct{}), false
			r.host.at = func(ctx context.Context, s, _ string) {
				if s != step || held {
					return
				}
				held = true
				close(reached)
				<-ctx.Done() // the caller has died
			}
			e := newRoute()
			r.control.want(e)
			if step == "before remove" || step == "after remove" {
				r.control.hears(t, e, space.ExecutionRunning)
				r.control.unwant(e)
			}
			<-reached
			r.restart(t)
			if step == "before ensure" || step == "after ensure" {
				r.control.hears(t, e, space.ExecutionRunning)
				r.control.unwant(e)
			}
			r.control.hears(t, e, "")
			if n := r.host.count(r.host.created, e); n != 1 {
				t.Errorf("made %d times", n)
			}
			r.host.Lock()
			defer r.host.Unlock()
			if len(r.host.machines) != 0 {
				t.Errorf("the host still has %v", r.host.machines)
			}
		})
	}
}

// TestLostReachesEverybodyAtOnce waits for no timer: the control plane leaves calls hanging, and a stream's grace doesn't end.
func TestLostReachesEverybodyAtOnce(t *testing.T) {
	r := newRig(t)
	r.manager.table.grace = time.Hour
	e := r.running(t)
	s := r.attach(t, e)
	if !s.Receive() || s.Msg().GetStarted() == nil {
		t.Fatalf("%v, %v", s.Msg(), s.Err())
	}
	r.host.kill(e.Execution)
	report := r.control.hears(t, e, space.ExecutionLost)
	if report.GetError().GetCode() != string(space.CodeExecutionLost) || report.GetSince() == nil {
		t.Errorf("report %v", report)
	}
	if !s.Receive() || string(s.Msg().GetOutput().GetData()) != "last words" {
		t.Errorf("what the host still had didn't come: %v", s.Msg())
	}
	if !s.Receive() || s.Msg().GetLost().GetError().GetCode() != string(space.CodeExecutionLost) {
		t.Errorf("%v, %v", s.Msg(), s.Err())
	}
	if s := r.attach(t, e); s.Receive() || space.CodeOf(peer.FromConnect(s.Err())) != space.CodeConflict {
		t.Errorf("a new attach, which the host refuses: %v", s.Err())
	}
	r.restart(t)
	r.control.hears(t, e, space.ExecutionLost)
	r.control.unwant(e)
	r.control.hears(t, e, "")
	if n := r.host.count(r.host.created, e); n != 1 {
		t.Errorf("made %d times", n)
	}
}

// TestHostThatSaysNothingOfALoss has the host report an end and leave the stream open: the stream ends all the same.
func TestHostThatSaysNothingOfALoss(t *testing.T) {
	r := newRig(t)
	r.manager.table.grace = 10 * time.Millisecond
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	r.host.Lock()
	m := r.host.machines[e.Execution]
	r.host.machines[e.Execution] = &controlv1.ExecutionReport{Route: m.GetRoute(), State: string(space.ExecutionFailed)}
	r.host.ring()
	r.host.Unlock()
	if !s.Receive() || s.Msg().GetLost().GetError().GetCode() != string(space.CodeExecutionLost) {
		t.Errorf("%v, %v", s.Msg(), s.Err())
	}
}

func TestLostWhileNobodyLooked(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.stop()
	r.host.Lock()
	delete(r.host.machines, e.Execution)
	r.host.Unlock()
	r.start(t)
	r.control.hears(t, e, space.ExecutionLost)
	if n := r.host.count(r.host.created, e); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestLateEnsureAfterRemove(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.control.Lock()
	delete(r.control.run, e.Execution)
	r.control.Unlock()
	r.control.send(removeOrder(e), ensureOrder(e))
	r.control.hears(t, e, "")
	r.running(t) // another round has been made
	if n := r.host.count(r.host.created, e); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestRemoveOfAnUnknownExecution(t *testing.T) {
	r := newRig(t)
	r.running(t) // now a call hangs that nothing overtakes: with an order that is given once it would be lost
	e := newRoute()
	r.control.send(removeOrder(e))
	r.host.until(t, "its removal", func() bool { return r.host.removed[e.Execution] > 0 })
	r.control.send(ensureOrder(e)) // it was ordered away before it was here
	r.running(t)
	if n := r.host.count(r.host.created, e); n != 0 {
		t.Errorf("made %d times", n)
	}
}

func TestRemoveCutsEnsureOff(t *testing.T) {
	r := newRig(t)
	begun, cut := make(chan struct{}), make(chan struct{})
	r.host.at = func(ctx context.Context, s, _ string) {
		if s == "before ensure" {
			close(begun)
			<-ctx.Done()
			close(cut)
		}
	}
	e := newRoute()
	r.control.want(e)
	<-begun
	r.control.unwant(e)
	r.control.hears(t, e, "")
	<-cut
	if n := r.host.count(r.host.created, e); n != 0 {
		t.Errorf("made %d times", n)
	}
}

func TestHostIsRestarted(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	r.cutHost()
	for s.Receive() {
		if !relay.Last(s.Msg()) {
			t.Errorf("%v", s.Msg())
		}
	}
	r.serveHost(t)
	r.control.want(newRoute())
	r.running(t) // the new host is heard and obeyed
	if got := r.control.hears(t, e, space.ExecutionRunning); got.GetError() != nil {
		t.Errorf("%v", got)
	}
	if s := r.attach(t, e); !s.Receive() || s.Msg().GetStarted() == nil {
		t.Errorf("%v, %v", s.Msg(), s.Err())
	}
	if n := r.host.count(r.host.created, e); n != 1 {
		t.Errorf("made %d times", n)
	}
}

// TestHostDiesWhileItMakesAMachine must not be taken for a refusal.
func TestHostDiesWhileItMakesAMachine(t *testing.T) {
	r := newRig(t)
	begun, first := make(chan struct{}), true
	r.host.at = func(ctx context.Context, s, _ string) {
		if first {
			first = false
			close(begun)
			<-ctx.Done()
		}
	}
	e := newRoute()
	r.control.want(e)
	<-begun
	r.cutHost()
	r.serveHost(t)
	r.control.hears(t, e, space.ExecutionRunning)
	if n := r.host.count(r.host.created, e); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestIncompleteUntilTheHostIsHeard(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.stop()
	r.cutHost()
	r.control.Lock()
	r.control.last = nil
	r.control.Unlock()
	r.start(t)
	var got *controlv1.SynchronizeRequest
	r.control.until(t, "a report without the host's facts", func() bool { // a call of the manager before may still be on its way
		got = r.control.last
		return got != nil && got.GetFacts() == nil
	})
	if got.GetComplete() || reported(got, e.Execution) == nil {
		t.Errorf("%v", got)
	}
	r.serveHost(t)
	r.control.until(t, "a complete report", func() bool { return r.control.last.GetComplete() && r.control.last.GetFacts().GetDriver() == "fake" })
}

func TestControlPlaneAway(t *testing.T) {
	r := newRig(t)
	e, other := r.running(t), r.running(t)
	r.cutCtl()
	s := r.attach(t, other)
	if !s.Receive() {
		t.Errorf("no attach while the control plane is away: %v", s.Err())
	}
	r.host.kill(e.Execution)
	r.serveControl(t)
	r.control.hears(t, e, space.ExecutionLost)
	r.control.hears(t, other, space.ExecutionRunning)
}

func TestUnknownExecutionsAreReported(t *testing.T) {
	r := newRig(t)
	e := newRoute()
	r.host.Lock()
	r.host.machines[e.Execution] = &controlv1.ExecutionReport{Route: peer.RouteMessage(e), State: string(space.ExecutionRunning)}
	foreign := newRoute()
	foreign.Placement.Node = "elsewhere"
	r.host.machines[foreign.Execution] = &controlv1.ExecutionReport{Route: peer.RouteMessage(foreign), State: string(space.ExecutionRunning)}
	r.host.ring()
	r.host.Unlock()
	r.control.hears(t, e, space.ExecutionRunning)
	r.control.unwant(e)
	r.control.hears(t, e, "")
	if n := r.host.count(r.host.removed, e); n != 1 {
		t.Errorf("removed %d times", n)
	}
}

func TestRefusedExecutionFails(t *testing.T) {
	r := newRig(t)
	e := newRoute()
	r.host.refuse[e.Execution] = space.Errorf(space.CodeCapacity, "no disk space")
	r.control.want(e)
	got := r.control.hears(t, e, space.ExecutionFailed)
	if got.GetError().GetCode() != string(space.CodeCapacity) || got.GetError().GetMessage() != "no disk space" {
		t.Errorf("%v", got)
	}
	if s := r.attach(t, e); s.Receive() || space.CodeOf(peer.FromConnect(s.Err())) != space.CodeExecutionLost {
		t.Errorf("attach: %v", s.Err())
	}
}

func TestUnavailableHostIsAskedAgain(t *testing.T) {
	r := newRig(t)
	e := newRoute()
	r.host.refuse[e.Execution] = space.Errorf(space.CodeUnavailable, "starting")
	tries := make(chan struct{}, 100)
	r.host.at = func(_ context.Context, s, _ string) { tries <- struct{}{} }
	r.control.want(e)
	<-tries
	<-tries
	r.host.Lock()
	delete(r.host.refuse, e.Execution)
	r.host.Unlock()
	r.control.hears(t, e, space.ExecutionRunning)
}

func TestTemplates(t *testing.T) {
	r := newRig(t)
	hears := func(id, state string) *controlv1.TemplateReport {
		t.Helper()
		var got *controlv1.TemplateReport
		r.control.until(t, state+" of "+id, func() bool {
			got = reportedTemplate(r.control.last, id)
			return got.GetState() == state
		})
		return got
	}
	order := func(id string) {
		r.control.Lock()
		defer r.control.Unlock()
		r.control.build[id] = &controlv1.EnsureTemplate{Template: id, Recipe: "mini", Shape: &controlv1.Shape{Vcpus: 1}}
		r.control.ring()
	}
	id := space.NewID(space.PrefixTemplate)
	order(id)
	hears(id, templateBuilding)
	r.host.until(t, "its build", func() bool { return r.host.builds[id] == 1 })
	r.host.Lock()
	r.host.templates[id] = &controlv1.TemplateReport{Template: id, State: templateReady, Digest: "sha256:1"}
	r.host.ring()
	r.host.Unlock()
	if got := hears(id, templateReady); got.GetDigest() != "sha256:1" {
		t.Errorf("%v", got)
	}

	bad := space.NewID(space.PrefixTemplate)
	r.host.Lock()
	r.host.refuse[bad] = space.Errorf(space.CodeInvalid, "unknown recipe")
	r.host.Unlock()
	order(bad)
	if got := hears(bad, templateFailed); got.GetError().GetMessage() != "unknown recipe" {
		t.Errorf("%v", got)
	}

	waiting := space.NewID(space.PrefixTemplate)
	r.host.Lock()
	r.host.refuse[waiting] = space.Errorf(space.CodeUnavailable, "the queue is full")
	r.host.Unlock()
	order(waiting)
	if got := hears(waiting, templateBuilding); got.GetProgress() == "" {
		t.Errorf("%v", got)
	}
	r.host.Lock()
	delete(r.host.refuse, waiting)
	r.host.Unlock()
	r.host.until(t, "the build that waited", func() bool { return r.host.builds[waiting] > 0 })
}

func TestStreamOfAnEarlierIncarnation(t *testing.T) {
	r := newRig(t)
	r.manager.table.grace = 10 * time.Millisecond
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	next := e
	next.Execution, next.Epoch = space.NewID(space.PrefixExecution), 2
	r.control.want(next)
	r.control.hears(t, next, space.ExecutionRunning)
	if s.Receive() || space.CodeOf(peer.FromConnect(s.Err())) != space.CodeRouteStale {
		t.Errorf("the stream goes on with %v, %v", s.Msg(), s.Err())
	}
	if s := r.attach(t, next); !s.Receive() {
		t.Errorf("the new incarnation: %v", s.Err())
	}
}

func TestShutdownSaysGoodbye(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	r.stop()
	if !s.Receive() || s.Msg().GetEnded().GetReason() != relay.ReasonShuttingDown {
		t.Errorf("%v, %v", s.Msg(), s.Err())
	}
}

// TestManyStreams has more streams than one HTTP/2 connection carries.
func TestManyStreams(t *testing.T) {
	r := newRig(t)
	r.manager.table.share = 300
	e := r.running(t)
	var last *connect.ServerStreamForClient[sessionv1.AttachResponse]
	for n := range r.manager.table.share {
		if last = r.attach(t, e); !last.Receive() {
			t.Fatalf("stream %d: %v", n, last.Err())
		}
	}
	if s := r.attach(t, e); s.Receive() || space.CodeOf(peer.FromConnect(s.Err())) != space.CodeQuotaExceeded {
		t.Errorf("one more: %v", s.Err())
	}
}
