package manager

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// unknownField is a field that no message of this build has, as a newer control plane would send it.
var unknownField = []byte{0xfa, 0x3f, 0x01, 'x'} // number 1023, one byte

func TestOrdersReachTheHostWhole(t *testing.T) {
	r := newRig(t)
	e, tpl := newRoute(), space.NewID(space.PrefixTemplate)
	run := ensureMessage(e)
	run.DiskOf = space.NewID(space.PrefixExecution)
	run.ProtoReflect().SetUnknown(unknownField)
	build := &controlv1.EnsureTemplate{
		Template: tpl, Source: &controlv1.Source{Source: &controlv1.Source_Image{Image: "registry.example/app:1"}}, NoCache: true,
		Steps:    []*controlv1.Step{{Step: &controlv1.Step_Run{Run: "true"}}, {Step: &controlv1.Step_Copy{Copy: &controlv1.Copy{Upload: "upl_x", To: "/"}}}},
		Defaults: &controlv1.Defaults{Env: map[string]string{"A": "b", "C": "d"}}, StartCommand: "serve", ReadyCheck: "probe",
	}
	build.ProtoReflect().SetUnknown(unknownField)
	// The manager dies between taking the orders and following them. That to make an execution comes again, since the next report lacks it.
	r.cutHost()
	r.control.send(&controlv1.Order{Order: &controlv1.Order_EnsureExecution{EnsureExecution: run}}, &controlv1.Order{Order: &controlv1.Order_EnsureTemplate{EnsureTemplate: build}})
	r.control.until(t, "both orders in a report", func() bool {
		return reported(r.control.last, e.Execution) != nil && reportedTemplate(r.control.last, tpl) != nil
	})
	r.stop()
	r.serveHost(t)
	r.start(t)
	r.control.Lock()
	r.control.run[e.Execution] = run
	r.control.ring()
	r.control.Unlock()
	r.host.until(t, "both orders at the host", func() bool { return r.host.orders[e.Execution] != nil && r.host.templated[tpl] != nil })
	if got := r.host.orders[e.Execution]; !proto.Equal(got, run) {
		t.Errorf("the host got %v, want %v", got, run)
	}
	if got := r.host.templated[tpl]; !proto.Equal(got, build) {
		t.Errorf("the host got %v, want %v", got, build)
	}
}

func TestStopKeepsTheDisk(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	s := r.attach(t, e)
	s.Receive()
	r.control.send(stopOrder(e))
	r.control.hears(t, e, space.ExecutionStopped)
	if !s.Receive() || string(s.Msg().GetOutput().GetData()) != "last words" || !s.Receive() || !s.Msg().GetExit().GetStopped() {
		t.Errorf("its stream ends with %v, %v", s.Msg(), s.Err())
	}
	if got := attachCode(t, r.sessions, attachRequest(e)); got != space.CodeConflict {
		t.Errorf("an attach: %q", got)
	}
	r.restart(t)
	r.control.hears(t, e, space.ExecutionStopped)
	next := e
	next.Execution, next.Epoch = space.NewID(space.PrefixExecution), 2
	r.control.want(next)
	r.control.hears(t, next, space.ExecutionRunning)
	r.control.unwant(e)
	r.control.hears(t, e, "")
	r.control.hears(t, next, space.ExecutionRunning)
}

// TestSlowClientGetsAllOfAnEndedSession has a client take what a session left long after its sandbox was stopped or lost.
func TestSlowClientGetsAllOfAnEndedSession(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(*rig, space.Route)
		state space.ExecutionState
	}{
		"stopped": {func(r *rig, e space.Route) { r.control.send(stopOrder(e)) }, space.ExecutionStopped},
		"lost":    {func(r *rig, e space.Route) { r.host.kill(e.Execution) }, space.ExecutionLost},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.manager.table.grace = 0
			e := r.running(t)
			slow := make(chan struct{})
			r.host.Lock()
			r.host.at = func(ctx context.Context, step, _ string) {
				if step == "last words" {
					select {
					case <-slow:
					case <-ctx.Done():
					}
				}
			}
			r.host.Unlock()
			r.answer(func(ctx context.Context, s *hostCall) error { <-ctx.Done(); return ctx.Err() })
			call := r.call(t, r.boxes, peer.RouteMessage(e))
			s := r.attach(t, e)
			s.Receive()
			tt.end(r, e)
			r.control.hears(t, e, tt.state)
			ends(call) // calls end by now, and so would the session's stream
			close(slow)
			if !s.Receive() || string(s.Msg().GetOutput().GetData()) != "last words" {
				t.Fatalf("it got %v, %v", s.Msg(), s.Err())
			}
			if !s.Receive() || (s.Msg().GetExit() == nil) != (name == "lost") {
				t.Errorf("it ends with %v, %v", s.Msg(), s.Err())
			}
		})
	}
}

// TestLongGracesHoldUpNoOther stops more sandboxes than the host is called for at once, whose processes take their time, and then another one.
func TestLongGracesHoldUpNoOther(t *testing.T) {
	r := newRig(t)
	r.host.Lock()
	r.host.graceful = true
	r.host.Unlock()
	for range maxStops {
		r.control.send(stopOrder(r.running(t)))
	}
	last := r.running(t)
	r.control.send(stopOrder(last))
	r.host.until(t, "the last order at the host, again and again until it's stopped", func() bool { return r.host.stopping[last.Execution] > 1 })
	r.host.Lock()
	r.host.graceful = false
	r.host.ring()
	r.host.Unlock()
	r.control.hears(t, last, space.ExecutionStopped)
}

// TestKilledWhileStopping stops the manager in the middle of a stop: the order is followed by its successor.
func TestKilledWhileStopping(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	reached := make(chan struct{})
	r.host.Lock()
	held := false
	r.host.at = func(ctx context.Context, step, _ string) {
		if step == "before stop" && !held {
			held = true
			close(reached)
			<-ctx.Done()
		}
	}
	r.host.Unlock()
	r.control.send(stopOrder(e))
	<-reached
	r.restart(t)
	r.control.hears(t, e, space.ExecutionStopped)
}

func TestRemoveTemplate(t *testing.T) {
	r := newRig(t)
	id, used := space.NewID(space.PrefixTemplate), space.NewID(space.PrefixTemplate)
	r.host.Lock()
	r.host.templates[id] = &controlv1.TemplateReport{Template: id, State: templateReady}
	r.host.templates[used] = &controlv1.TemplateReport{Template: used, State: templateReady}
	r.host.refuse[used] = space.Errorf(space.CodeConflict, "an execution needs it")
	r.host.ring()
	r.host.Unlock()
	shows := func(id string) bool { return reportedTemplate(r.control.last, id).GetState() == templateReady }
	r.control.until(t, "both templates", func() bool { return shows(id) && shows(used) })
	r.control.send(dropOrder(id), dropOrder(used))
	r.control.until(t, "one of them gone", func() bool { return r.control.last.GetComplete() && !shows(id) && shows(used) })
	r.host.until(t, "the refusal", func() bool { return r.host.removed[used] > 0 })
	r.host.until(t, "the end of both orders", func() bool {
		r.manager.table.mu.Lock()
		defer r.manager.table.mu.Unlock()
		return len(r.manager.table.orders) == 0 || r.again()
	})
	r.control.until(t, "the used one still there", func() bool { return shows(used) })
}

func TestLogsAreAcknowledged(t *testing.T) {
	r := newRig(t)
	id := space.NewID(space.PrefixTemplate)
	r.host.Lock()
	r.host.templates[id] = &controlv1.TemplateReport{Template: id, State: templateBuilding, Log: []*controlv1.LogLine{{Number: 1, Text: "a"}, {Number: 2, Text: "b"}}}
	r.host.ring()
	r.host.Unlock()
	r.control.until(t, "the lines", func() bool { return len(reportedTemplate(r.control.last, id).GetLog()) == 2 })
	r.host.Lock()
	r.host.ends = []*controlv1.SessionEnd{{Session: "ses_a", Exit: &sessionv1.Exit{Code: 3}}}
	r.host.ring()
	r.host.Unlock()
	r.control.until(t, "the end of a session", func() bool {
		ends := r.control.last.GetSessionEnds()
		return len(ends) == 1 && ends[0].GetSession() == "ses_a" && ends[0].GetExit().GetCode() == 3
	})
	r.control.Lock()
	r.control.logs, r.control.ends = map[string]uint64{id: 2}, []string{"ses_a"}
	r.control.Unlock()
	r.running(t) // an answer with orders
	r.host.until(t, "the acknowledgement", func() bool { return r.host.received[id] == 2 && slices.Equal(r.host.told, []string{"ses_a"}) })
}

// TestEndsThatArrivedAreNoNews: the end of a session is told in one report, and that the host lists it no more in none. Where the host couldn't be told
// that it has arrived it's told again.
func TestEndsThatArrivedAreNoNews(t *testing.T) {
	table, err := openTable(filepath.Join(t.TempDir(), "records"), "node")
	if err != nil {
		t.Fatal(err)
	}
	defer table.store.close()
	hear := func(sessions ...string) (news bool) {
		t.Helper()
		m := &hostv1.WatchResponse{Facts: &controlv1.NodeFacts{Driver: "fake"}}
		for _, id := range sessions {
			m.SessionEnds = append(m.SessionEnds, &controlv1.SessionEnd{Session: id})
		}
		before := table.version
		if err := table.hear(m); err != nil {
			t.Fatal(err)
		}
		return table.version != before
	}
	told := func() (ids []string) {
		for _, e := range table.report().msg.GetSessionEnds() {
			ids = append(ids, e.GetSession())
		}
		return ids
	}
	hear()
	if !hear("ses_a") || !slices.Equal(told(), []string{"ses_a"}) {
		t.Errorf("told are %v", told())
	}
	table.endsArrived([]string{"ses_a"})
	if hear("ses_a") || len(told()) > 0 {
		t.Errorf("told are %v again", told())
	}
	if !hear("ses_a", "ses_b") || !slices.Equal(told(), []string{"ses_b"}) {
		t.Errorf("told are %v, want the new one", told())
	}
	if hear("ses_b") || len(table.arrived) > 0 {
		t.Errorf("an end that is gone is news, or kept in mind: %v", table.arrived)
	}
	table.endsArrived([]string{"ses_b"})
	table.endsUnheard([]string{"ses_b"})
	if !slices.Equal(told(), []string{"ses_b"}) {
		t.Errorf("told are %v, want what the host doesn't know to have arrived", told())
	}
}

// TestUploadsAreReportedAndRemoved has the host get uploads of which the control plane doesn't want one.
func TestUploadsAreReportedAndRemoved(t *testing.T) {
	r := newRig(t)
	r.host.Lock()
	r.host.uploads = []*controlv1.UploadReport{{Upload: "upl_a", Bytes: 7}, {Upload: "upl_b", Bytes: 9}}
	r.host.ring()
	r.host.Unlock()
	reported := func(want ...string) func() bool {
		return func() bool {
			var got []string
			for _, u := range r.control.last.GetUploads() {
				got = append(got, fmt.Sprint(u.GetUpload(), " ", u.GetBytes()))
			}
			return slices.Equal(got, want)
		}
	}
	r.control.until(t, "both", reported("upl_a 7", "upl_b 9"))
	r.control.Lock()
	r.control.raw = []*controlv1.Order{{Order: &controlv1.Order_RemoveUpload{RemoveUpload: &controlv1.RemoveUpload{Upload: "upl_a"}}}}
	r.control.ring()
	r.control.Unlock()
	r.control.until(t, "one", reported("upl_b 9"))
}

func TestUsageIsFreshOrAbsent(t *testing.T) {
	r := newRig(t)
	e := r.running(t)
	tell := func(at time.Time, cpu float64) {
		r.host.Lock()
		defer r.host.Unlock()
		r.host.machines[e.Execution] = &controlv1.ExecutionReport{Route: peer.RouteMessage(e), State: string(space.ExecutionRunning),
			Usage: &sandboxv1.Usage{At: timestamppb.New(at), CpuSeconds: cpu, Guest: &sandboxv1.GuestUsage{Processes: 3}}}
		r.host.ring()
	}
	report := func() *controlv1.ExecutionReport {
		for _, x := range r.manager.table.report().msg.GetExecutions() {
			if x.GetRoute().GetExecution() == e.Execution {
				return x
			}
		}
		return nil
	}
	tell(time.Now(), 0.5)
	r.control.until(t, "the first figures", func() bool { return reported(r.control.last, e.Execution).GetUsage().GetCpuSeconds() == 0.5 })
	before := r.manager.table.report().version
	tell(time.Now(), 1)
	r.host.until(t, "figures in a report", func() bool {
		if u := report().GetUsage(); u.GetCpuSeconds() == 1 && u.GetGuest().GetProcesses() == 3 {
			return true
		}
		return r.again()
	})
	if rep := r.manager.table.report(); rep.version != before {
		t.Error("figures alone bring a report of their own")
	}
	if d := hang(r.manager.table.report().msg); d != runningHang {
		t.Errorf("a call hangs for %s while something runs", d)
	}
	r.manager.table.mu.Lock()
	r.manager.table.now = func() time.Time { return time.Now().Add(maxUsageAge + time.Second) }
	r.manager.table.mu.Unlock()
	if u := report().GetUsage(); u != nil {
		t.Errorf("old figures are told: %v", u)
	}
	if d := hang(&controlv1.SynchronizeRequest{Executions: []*controlv1.ExecutionReport{{State: string(space.ExecutionStopped)}}}); d != maxHang {
		t.Errorf("a call hangs for %s while nothing runs", d)
	}
}

func TestMessagesSurviveTheFile(t *testing.T) {
	r := record{Route: newRoute(), Order: message([]byte{0, 0xff, '"', 0xc3}), Wanted: wantStopped}
	b, err := r.Order.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back message
	if err := back.UnmarshalJSON(b); err != nil || back != r.Order {
		t.Errorf("%s came back as %x, %v", b, back, err)
	}
	if err := back.UnmarshalJSON([]byte(fmt.Sprint(`{}`))); err == nil {
		t.Error("an object was read as a message")
	}
}

// TestLoginIsNeverOnDisk kills the manager between taking an order with a login and following it: its file has nothing of it, and the control plane
// orders again.
func TestLoginIsNeverOnDisk(t *testing.T) {
	const canary = "s3cret-canary"
	path := filepath.Join(t.TempDir(), "records")
	table, err := openTable(path, "node")
	if err != nil {
		t.Fatal(err)
	}
	id := space.NewID(space.PrefixTemplate)
	order := &controlv1.Order{Order: &controlv1.Order_EnsureTemplate{EnsureTemplate: &controlv1.EnsureTemplate{
		Template: id, Source: &controlv1.Source{Source: &controlv1.Source_Image{Image: "registry.example/app:1"}},
		RegistryAuth: &controlv1.RegistryAuth{Username: "robot", Password: canary},
	}}}
	if changed, err := table.obey([]*controlv1.Order{order}, table.report()); err != nil || !changed {
		t.Fatal(changed, err)
	}
	act, _, o := table.lacks(id)
	got := new(controlv1.EnsureTemplate)
	if err := o.Order.into(got); err != nil || act != actBuild || got.GetRegistryAuth().GetPassword() != canary {
		t.Errorf("the host would be told %v, %v", got, err)
	}
	if err := table.store.close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte(canary)) {
		t.Errorf("the file has it, %v", err)
	}
	table, err = openTable(path, "node")
	if err != nil {
		t.Fatal(err)
	}
	defer table.store.close()
	if len(table.orders) != 0 {
		t.Errorf("kept are %v", table.orders)
	}
	if changed, err := table.obey([]*controlv1.Order{order}, table.report()); err != nil || !changed {
		t.Errorf("ordered again: %v, %v", changed, err)
	}
}
