package manager

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/internal/peer"
)

// turn brings a machine to a state, unless it's refused.
func (h *fakeHost) turn(ctx context.Context, step string, r *routev1.Route, to space.ExecutionState, more func(*controlv1.ExecutionReport)) error {
	id := r.GetExecution()
	h.step(ctx, "before "+step, id)
	h.Lock()
	defer h.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := h.refuse[id]; err != nil {
		return peer.ToConnect(err)
	}
	if h.machines[id] == nil {
		return peer.ToConnect(space.Errorf(space.CodeNotFound, "no such execution"))
	}
	h.turns = append(h.turns, step)
	next := &controlv1.ExecutionReport{Route: r, State: string(to)}
	if more != nil {
		more(next)
	}
	h.machines[id] = next
	h.ring()
	return nil
}

func (h *fakeHost) PauseExecution(ctx context.Context, req *connect.Request[hostv1.PauseExecutionRequest]) (*connect.Response[hostv1.PauseExecutionResponse], error) {
	err := h.turn(ctx, "pause", req.Msg.GetOrder().GetRoute(), space.ExecutionPaused, nil)
	return connect.NewResponse(&hostv1.PauseExecutionResponse{}), err
}

func (h *fakeHost) ResumeExecution(ctx context.Context, req *connect.Request[hostv1.ResumeExecutionRequest]) (*connect.Response[hostv1.ResumeExecutionResponse], error) {
	err := h.turn(ctx, "resume", req.Msg.GetOrder().GetRoute(), space.ExecutionRunning, nil)
	return connect.NewResponse(&hostv1.ResumeExecutionResponse{}), err
}

func (h *fakeHost) SuspendExecution(ctx context.Context, req *connect.Request[hostv1.SuspendExecutionRequest]) (*connect.Response[hostv1.SuspendExecutionResponse], error) {
	o := req.Msg.GetOrder()
	h.Lock()
	err := h.suspendErr
	h.Unlock()
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	if h.take(o.GetRoute(), o.GetSnapshot(), controlv1.SnapshotKind_SNAPSHOT_KIND_FULL) != "ready" {
		return connect.NewResponse(&hostv1.SuspendExecutionResponse{}), nil
	}
	err = h.turn(ctx, "suspend", o.GetRoute(), space.ExecutionSuspended, func(r *controlv1.ExecutionReport) { r.Snapshot = o.GetSnapshot() })
	return connect.NewResponse(&hostv1.SuspendExecutionResponse{}), err
}

func (h *fakeHost) TakeSnapshot(ctx context.Context, req *connect.Request[hostv1.TakeSnapshotRequest]) (*connect.Response[hostv1.TakeSnapshotResponse], error) {
	o := req.Msg.GetOrder()
	h.step(ctx, "before take", o.GetSnapshot())
	h.Lock()
	err := h.refuse[o.GetSnapshot()]
	h.Unlock()
	if err != nil {
		return nil, peer.ToConnect(err)
	}
	h.take(o.GetRoute(), o.GetSnapshot(), o.GetKind())
	return connect.NewResponse(&hostv1.TakeSnapshotResponse{}), nil
}

// take makes a snapshot, which fails if the host is told so, and returns its state.
func (h *fakeHost) take(r *routev1.Route, id string, kind controlv1.SnapshotKind) string {
	h.Lock()
	defer h.Unlock()
	if s := h.snapshots[id]; s != nil {
		return s.GetState()
	}
	s := &controlv1.SnapshotReport{Snapshot: id, State: "ready", Route: r, Kind: kind, Digest: "sha256:x"}
	if h.fails[id] {
		s.State, s.Error, s.Digest = "failed", peer.ErrorMessage(space.Errorf(space.CodeCapacity, "no room")), ""
	}
	h.snapshots[id] = s
	h.taken[id]++
	h.ring()
	return s.GetState()
}

func (h *fakeHost) RemoveSnapshot(_ context.Context, req *connect.Request[hostv1.RemoveSnapshotRequest]) (*connect.Response[hostv1.RemoveSnapshotResponse], error) {
	h.Lock()
	defer h.Unlock()
	id := req.Msg.GetOrder().GetSnapshot()
	h.removed[id]++
	h.ring()
	if err := h.refuse[id]; err != nil {
		return nil, peer.ToConnect(err)
	}
	delete(h.snapshots, id)
	return connect.NewResponse(&hostv1.RemoveSnapshotResponse{}), nil
}

func pauseOrder(r space.Route, op string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_PauseExecution{PauseExecution: &controlv1.PauseExecution{Route: peer.RouteMessage(r), Operation: op}}}
}

func resumeOrder(r space.Route, op string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_ResumeExecution{ResumeExecution: &controlv1.ResumeExecution{Route: peer.RouteMessage(r), Operation: op}}}
}

func suspendOrder(r space.Route, id string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_SuspendExecution{SuspendExecution: &controlv1.SuspendExecution{Route: peer.RouteMessage(r), Snapshot: id}}}
}

func takeOrder(r space.Route, id string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_TakeSnapshot{TakeSnapshot: &controlv1.TakeSnapshot{
		Route: peer.RouteMessage(r), Snapshot: id, Kind: controlv1.SnapshotKind_SNAPSHOT_KIND_DISK,
	}}}
}

func discardOrder(id string) *controlv1.Order {
	return &controlv1.Order{Order: &controlv1.Order_RemoveSnapshot{RemoveSnapshot: &controlv1.RemoveSnapshot{Snapshot: id}}}
}

func newOperation() string { return space.NewID(space.PrefixOperation) }
func newSnapshot() string  { return space.NewID(space.PrefixSnapshot) }

// hearsSnapshot waits until a snapshot is reported in a state; "" for absent from a complete report.
func (c *fakeControl) hearsSnapshot(t *testing.T, id, state string) *controlv1.SnapshotReport {
	t.Helper()
	var got *controlv1.SnapshotReport
	c.until(t, state+" of "+id+" in a report", func() bool {
		got = nil
		for _, s := range c.last.GetSnapshots() {
			if s.GetSnapshot() == id {
				got = s
			}
		}
		return c.last.GetComplete() && got.GetState() == state
	})
	return got
}

// TestAPausedOneStaysSo whoever is restarted, with the streams that it has, and lets nothing new in.
func TestAPausedOneStaysSo(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	r.control.send(pauseOrder(e, newOperation()))
	r.control.hears(t, e, space.ExecutionPaused)
	if got := attachCode(t, r.sessions, attachRequest(e)); got != "" {
		t.Errorf("an attach, which its host knows or refuses: %q", got)
	}
	if _, got := ends(r.call(t, r.boxes, peer.RouteMessage(e))); got != space.CodeRouteStale {
		t.Errorf("a call: %q", got)
	}
	r.control.send(resumeOrder(e, newOperation()))
	r.control.hears(t, e, space.ExecutionRunning)
	r.control.send(stopOrder(e))
	if !s.Receive() || string(s.Msg().GetOutput().GetData()) != "last words" {
		t.Errorf("the stream that was there goes on with %v, %v", s.Msg(), s.Err())
	}
	f := r.running(t)
	r.control.send(pauseOrder(f, newOperation()))
	r.control.hears(t, f, space.ExecutionPaused)
	r.restart(t)
	r.control.hears(t, f, space.ExecutionPaused)
	r.host.Lock()
	defer r.host.Unlock()
	if told := slices.Compact(slices.Clone(r.host.turns)); !slices.Equal(told, []string{"pause", "resume", "pause"}) { // each perhaps more than once
		t.Errorf("the host was told %v", r.host.turns)
	}
}

func TestARefusedPauseIsToldOnce(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.host.Lock()
	r.host.refuse[e.Execution] = space.Errorf(space.CodeGuest, "it can't stand still")
	r.host.Unlock()
	op := newOperation()
	r.control.send(pauseOrder(e, op))
	r.control.until(t, "the refusal", func() bool {
		got := reported(r.control.last, e.Execution)
		return got.GetRefused() == op && got.GetRefusal().GetCode() == string(space.CodeGuest) && got.GetState() == string(space.ExecutionRunning)
	})
	r.host.Lock()
	delete(r.host.refuse, e.Execution)
	r.host.Unlock()
	after := newSnapshot()
	r.control.send(pauseOrder(e, op)) // which was on its way
	r.control.send(takeOrder(e, after))
	r.control.hearsSnapshot(t, after, "ready")
	if got := r.control.hears(t, e, space.ExecutionRunning); got.GetRefused() != op {
		t.Errorf("what was refused is tried again: it's told as %v", got)
	}
	r.host.Lock()
	if len(r.host.turns) > 0 {
		t.Errorf("the host was told to %v", r.host.turns)
	}
	r.host.Unlock()
	again := newOperation()
	r.control.send(pauseOrder(e, again))
	got := r.control.hears(t, e, space.ExecutionPaused)
	if got.GetRefused() != "" {
		t.Errorf("it's told as %v", got)
	}
}

func TestSuspend(t *testing.T) {
	r := newRig(t)
	e, id := r.running(t), newSnapshot()
	r.control.send(suspendOrder(e, id))
	if got := r.control.hears(t, e, space.ExecutionSuspended); got.GetSnapshot() != id {
		t.Errorf("it's told as %v", got)
	}
	r.control.hearsSnapshot(t, id, "ready")
	if got := attachCode(t, r.sessions, attachRequest(e)); got != "" {
		t.Errorf("an attach, which its host knows or refuses: %q", got)
	}
	r.restart(t)
	r.control.hears(t, e, space.ExecutionSuspended)
	next := e
	next.Execution, next.Epoch = space.NewID(space.PrefixExecution), 2
	r.control.want(next)
	r.control.hears(t, next, space.ExecutionRunning)
	r.control.unwant(e)
	r.control.hears(t, e, "")
	r.control.hearsSnapshot(t, id, "ready")
	r.control.send(discardOrder(id))
	r.control.hearsSnapshot(t, id, "")
}

// TestASuspendThatFailsIsOver: it isn't tried again under the same snapshot, and another one can be ordered at once.
func TestASuspendThatFailsIsOver(t *testing.T) {
	r := newRig(t)
	e, bad, good := r.running(t), newSnapshot(), newSnapshot()
	r.host.Lock()
	r.host.fails[bad] = true
	r.host.Unlock()
	r.control.send(suspendOrder(e, bad))
	r.control.hearsSnapshot(t, bad, "failed")
	r.control.hears(t, e, space.ExecutionRunning)
	r.control.send(suspendOrder(e, bad), suspendOrder(e, good))
	r.control.hears(t, e, space.ExecutionSuspended)
	r.control.hearsSnapshot(t, good, "ready")
}

// TestASuspendThatIsRefusedFails: the host has nothing of the snapshot, so the manager says so.
func TestASuspendThatIsRefusedFails(t *testing.T) {
	r := newRig(t)
	e, id := r.running(t), newSnapshot()
	r.host.Lock()
	r.host.suspendErr = space.Errorf(space.CodeCapacity, "too many snapshots")
	r.host.Unlock()
	r.control.send(suspendOrder(e, id))
	if got := r.control.hearsSnapshot(t, id, "failed"); got.GetError().GetCode() != string(space.CodeCapacity) {
		t.Errorf("it's told as %v", got)
	}
	r.control.send(discardOrder(id))
	r.control.hearsSnapshot(t, id, "")
	r.control.hears(t, e, space.ExecutionRunning)
}

func TestSnapshotsAreTakenAndRemoved(t *testing.T) {
	r := newRig(t)
	e, id, refused := r.running(t), newSnapshot(), newSnapshot()
	held := make(chan struct{})
	r.host.Lock()
	r.host.refuse[refused] = space.Errorf(space.CodeConflict, "no")
	r.host.at = func(ctx context.Context, step, key string) {
		if step == "before take" && key == id {
			<-held
		}
	}
	r.host.Unlock()
	r.control.send(takeOrder(e, id), takeOrder(e, refused))
	r.control.hearsSnapshot(t, id, "making")
	close(held)
	r.control.hearsSnapshot(t, id, "ready")
	if got := r.control.hearsSnapshot(t, refused, "failed"); got.GetError().GetCode() != string(space.CodeConflict) {
		t.Errorf("the one that was refused is told as %v", got)
	}
	r.control.send(takeOrder(e, id)) // the answer to an older report
	r.host.Lock()
	r.host.refuse[id] = space.Errorf(space.CodeConflict, "a machine is being loaded from it")
	r.host.Unlock()
	r.control.send(discardOrder(id))
	r.host.until(t, "a removal that's refused", func() bool { return r.host.removed[id] > 0 })
	r.host.Lock()
	delete(r.host.refuse, id)
	r.host.Unlock()
	r.control.until(t, "no order that waits", func() bool { return r.idle(id) })
	r.control.send(discardOrder(id))
	r.control.hearsSnapshot(t, id, "")
	r.host.Lock()
	defer r.host.Unlock()
	if r.host.taken[id] != 1 {
		t.Errorf("it was taken %d times", r.host.taken[id])
	}
}

// idle tells whether no order about a snapshot stands, and has the question asked again otherwise.
func (r *rig) idle(id string) bool {
	r.manager.table.mu.Lock()
	defer r.manager.table.mu.Unlock()
	_, there := r.manager.table.snapshots[id]
	if there {
		time.AfterFunc(5*time.Millisecond, func() {
			r.control.Lock()
			defer r.control.Unlock()
			r.control.ring()
		})
	}
	return !there
}

func TestSessionsThatCameWithASnapshotAreTold(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	r.host.Lock()
	m := r.host.machines[e.Execution]
	r.host.machines[e.Execution] = &controlv1.ExecutionReport{Route: m.GetRoute(), State: m.GetState(), Sessions: []*controlv1.SessionCopy{{Session: "a", Of: "b"}}}
	r.host.ring()
	r.host.Unlock()
	r.control.until(t, "its session", func() bool { return len(reported(r.control.last, e.Execution).GetSessions()) == 1 })
}

// TestActivityIsTold: an attach is one, and so is each event.
func TestActivityIsTold(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	if at := reported(r.control.last, e.Execution).GetActive(); at != nil {
		t.Errorf("it's active since %v, and nobody was there", at)
	}
	before := time.Now()
	s := r.attach(t, e)
	s.Receive()
	r.control.send(pauseOrder(e, newOperation()))
	got := r.control.hears(t, e, space.ExecutionPaused)
	if at := got.GetActive().AsTime(); at.Before(before) || at.After(time.Now()) {
		t.Errorf("it was active at %s, the attach was at %s", at, before)
	}
}

// TestASilentClientIsActivity moves the clock while a client is attached that neither says nor hears anything, and when it has left.
func TestASilentClientIsActivity(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	var hours atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(hours.Load()) * time.Hour) }
	r.manager.table.mu.Lock()
	r.manager.table.now = now
	r.manager.table.mu.Unlock()
	s := r.attach(t, e)
	s.Receive()
	idle := func() time.Duration {
		for _, m := range r.manager.table.report().msg.Executions {
			if m.GetRoute().GetExecution() == e.Execution {
				return now().Sub(m.GetActive().AsTime())
			}
		}
		t.Fatal("it isn't reported")
		return 0
	}
	hours.Store(7)
	if d := idle(); d > time.Minute {
		t.Errorf("with a silent client it's idle for %s", d)
	}
	s.Close()
	for r.manager.table.attached() > 0 {
		if t.Context().Err() != nil {
			t.Fatal("the stream doesn't end")
		}
		runtime.Gosched()
	}
	hours.Store(14)
	if d := idle(); d < 7*time.Hour-time.Minute || d > 7*time.Hour+time.Minute {
		t.Errorf("seven hours after it left it's idle for %s", d)
	}
}

// attached is how many streams there are.
func (t *table) attached() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streams)
}

// TestTheNewestTurnCounts goes through all orders that may come in any state of the record.
func TestTheNewestTurnCounts(t *testing.T) {
	route := newRoute()
	for want, turn := range map[wanted]turnOrder{
		wantPaused:    {wanted: wantPaused, operation: "op_1"},
		wantRunning:   {wanted: wantRunning, operation: "op_2"},
		wantSuspended: {wanted: wantSuspended, snapshot: "snp_1"},
	} {
		turn.route = route
		for _, w := range []wanted{wantRunning, wantPaused, wantSuspended, wantStopped, wantRemoved} {
			old := record{Route: route, Wanted: w, State: space.ExecutionRunning, Refused: "op_0", Refusal: &problem{}}
			got, err := orderTurn(&old, turn)
			if over := w == wantStopped || w == wantRemoved; over != (space.CodeOf(err) == space.CodeConflict) {
				t.Errorf("%s after %s: %v", want, w, err)
			} else if !over && (got.Wanted != want || got.Refused != "" || got.Refusal != nil) {
				t.Errorf("%s after %s: %+v", want, w, got)
			}
		}
		if _, err := orderTurn(nil, turn); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%s of one that isn't there: %v", want, err)
		}
	}
	for _, s := range []space.ExecutionState{space.ExecutionRunning, space.ExecutionPaused} {
		r := refuseTurn(record{Wanted: wantSuspended, Snapshot: "snp_1", State: s}, nil)
		if act := decide(r); act != actNone || r.Refused != "" {
			t.Errorf("after a suspend of one that is %s was refused: %+v, %d", s, r, act)
		}
	}
}
