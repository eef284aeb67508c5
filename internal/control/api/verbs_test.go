package api_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/controllers"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// verb does one to a sandbox, waits, and asserts that it has succeeded.
func (r *rig) verb(t *testing.T, sandbox, verb string) gen.Operation {
	t.Helper()
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+sandbox+"/"+verb+"?wait=30s", nil).want(t, 200))
	if o.Status != gen.OperationStatusSucceeded {
		t.Fatalf("%s: %+v, error %+v", verb, o, o.Error)
	}
	return o
}

// took forgets what the node was ordered, and returns it.
func (n *obedientNode) took() []nodesync.Order {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.ordered
	n.ordered = nil
	return out
}

func TestStopAndStart(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id)
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Fatal(err)
	}
	unused := r.session(t, box.Id)
	r.node.took()
	stop := r.verb(t, box.Id, "stop")
	if stop.Kind != gen.OperationKindStopSandbox || stop.Sandbox.State != gen.SandboxStateStopped || stop.Sandbox.Execution != box.Execution {
		t.Errorf("stop: %+v", stop)
	}
	if again := r.verb(t, box.Id, "stop"); again.Id != stop.Id {
		t.Errorf("stop of a stopped one is operation %s, want %s", again.Id, stop.Id)
	}
	kept := func(execution string) {
		t.Helper()
		target, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id)
		if err != nil || !target.Kept || target.Execution.Route.Execution != execution {
			t.Errorf("of a session that ended with its execution: %+v, %v", target, err)
		}
		_, err = r.sessions.ResolveStarted(t.Context(), session.Attachment.Token, session.Session.Id, false)
		wantCode(t, err, space.CodeConflict)
		r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions/"+session.Session.Id+"/attachments", nil).want(t, 201)
	}
	kept(box.Execution.Id)
	if _, err := r.sessions.Resolve(t.Context(), unused.Attachment.Token, unused.Session.Id); space.CodeOf(err) != space.CodeConflict || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("of one that hasn't begun: %v", err)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions/"+unused.Session.Id+"/attachments", nil).code(t, space.CodeConflict)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"true"}`).code(t, space.CodeConflict)
	r.do(t, "GET", "/v1/sandboxes/"+box.Id+"/metrics", nil).code(t, space.CodeConflict)

	start := r.verb(t, box.Id, "start")
	now := *start.Sandbox
	if start.Kind != gen.OperationKindStartSandbox || now.State != gen.SandboxStateRunning || now.Execution.Epoch != 2 || now.Execution.Id == box.Execution.Id {
		t.Errorf("start: %+v", start)
	}
	if again := r.verb(t, box.Id, "start"); again.Id != start.Id {
		t.Errorf("start of a running one is operation %s, want %s", again.Id, start.Id)
	}
	kept(now.Execution.Id)
	if target, err := r.sessions.Resolve(t.Context(), unused.Attachment.Token, unused.Session.Id); err != nil || target.Execution.Route.Execution != now.Execution.Id {
		t.Errorf("a session that hadn't begun: %+v, %v", target, err)
	}
	var kinds []nodesync.OrderKind
	for _, o := range r.node.took() {
		if len(kinds) == 0 || kinds[len(kinds)-1] != o.Kind {
			kinds = append(kinds, o.Kind)
		}
		if o.Kind == nodesync.EnsureExecution && (o.DiskOf != box.Execution.Id || o.Route.Execution != now.Execution.Id) {
			t.Errorf("ordered %+v", o)
		}
	}
	if want := []nodesync.OrderKind{nodesync.StopExecution, nodesync.EnsureExecution}; !slices.Equal(kinds[:min(2, len(kinds))], want) {
		t.Errorf("ordered %v", kinds)
	}
}

// TestStartOfALostOne starts a sandbox whose machine is gone: never by itself, from its surviving disk.
func TestStartOfALostOne(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.end(box.Id, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the VMM was killed"))
	r.state(t, box.Id, gen.SandboxStateLost)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/stop", nil).code(t, space.CodeConflict)
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			return space.ExecutionFailed, space.Errorf(space.CodeCapacity, "no memory")
		}
	})
	failed := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/start?wait=30s", nil).want(t, 200))
	if failed.Status != gen.OperationStatusFailed || failed.Error.Code != string(space.CodeCapacity) || failed.Sandbox.State != gen.SandboxStateLost {
		t.Errorf("%+v", failed)
	}
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil }
	})
	r.node.took()
	if o := r.verb(t, box.Id, "start"); o.Sandbox.Execution.Epoch != 3 || o.Sandbox.Error != nil {
		t.Errorf("%+v", o.Sandbox)
	}
	for _, o := range r.node.took() {
		if o.Kind == nodesync.EnsureExecution && o.DiskOf != box.Execution.Id {
			t.Errorf("it boots from the disk of %s, want %s", o.DiskOf, box.Execution.Id)
		}
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
	r.node.change(func() {
		if len(r.node.executions) > 0 {
			t.Errorf("left on the node: %v", r.node.executions)
		}
	})
}

// TestVerbsAtOnce sends stops, starts and a delete at the same moment: each gets an operation, or a conflict that names the one under way.
func TestVerbsAtOnce(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.node.change(func() {
		r.node.stop = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil } // it takes forever
	})
	var mu sync.Mutex
	stops := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a := r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/stop", nil)
			mu.Lock()
			defer mu.Unlock()
			stops[decode[gen.Operation](t, a.want(t, 202)).Id] = true
		})
	}
	wg.Wait()
	if len(stops) != 1 {
		t.Fatalf("stops at once are operations %v", stops)
	}
	var stop string
	for stop = range stops {
	}
	if p := r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/start", nil).code(t, space.CodeConflict); !strings.Contains(*p.Detail, stop) {
		t.Errorf("a start while it stops: %s", *p.Detail)
	}
	deletion := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200))
	ended := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+stop, nil).want(t, 200))
	if ended.Status != gen.OperationStatusFailed || ended.Error.Code != string(space.CodeConflict) || !strings.Contains(*ended.Error.Detail, deletion.Id) {
		t.Errorf("the superseded stop: %+v", ended.Error)
	}
}

// TestDeleteFromEveryState brings a sandbox into each state that there is today, and deletes it.
func TestDeleteFromEveryState(t *testing.T) {
	r := newRig(t)
	r.template(t)
	pending := func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	running := func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil }
	stopped := func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionStopped, nil }
	for state, reach := range map[gen.SandboxState]func(id string){
		gen.SandboxStateRunning:  func(string) {},
		gen.SandboxStateStopping: func(id string) { r.do(t, "POST", "/v1/sandboxes/"+id+"/stop", nil).want(t, 202) },
		gen.SandboxStateStopped:  func(id string) { r.verb(t, id, "stop") },
		gen.SandboxStateStarting: func(id string) {
			r.verb(t, id, "stop")
			r.node.change(func() { r.node.start = pending })
			r.do(t, "POST", "/v1/sandboxes/"+id+"/start", nil).want(t, 202)
		},
		gen.SandboxStateLost:     func(id string) { r.node.end(id, space.ExecutionLost, nil) },
		gen.SandboxStateDeleting: func(id string) { r.do(t, "DELETE", "/v1/sandboxes/"+id, nil) },
	} {
		r.node.change(func() {
			r.node.start, r.node.stop = running, stopped
			if state == gen.SandboxStateStopping {
				r.node.stop = running
			}
		})
		id := r.sandbox(t).Id
		reach(id)
		if state != gen.SandboxStateDeleting {
			r.state(t, id, state)
		}
		o := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+id+"?wait=30s", nil).want(t, 200))
		if o.Status != gen.OperationStatusSucceeded || o.Sandbox.State != gen.SandboxStateDeleted {
			t.Errorf("delete of one that is %s: %+v", state, o)
		}
	}
}

// TestUpdate changes each part by itself: the others stay.
func TestUpdate(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id
	deadline := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	update := func(body any) gen.Sandbox {
		t.Helper()
		return decode[gen.Sandbox](t, r.do(t, "PATCH", path, body).want(t, 200))
	}
	update(`{"metadata":{"a":"1"},"env":{"A":"1","B":"2"}}`)
	got := update(map[string]any{"lifetime": map[string]any{"deadline": deadline, "on_expiry": "stop"}})
	if got.Metadata["a"] != "1" || got.Env == nil || (*got.Env)["B"] != "2" || got.Lifetime == nil || !got.Lifetime.Deadline.Equal(deadline) || got.Lifetime.OnExpiry != "stop" {
		t.Errorf("updated: %+v", got)
	}
	if read := decode[gen.Sandbox](t, r.do(t, "GET", path, nil).want(t, 200)); !cmp.Equal(read, got) {
		t.Error(cmp.Diff(got, read))
	}
	if listed := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil).want(t, 200)).Items[0]; listed.Env != nil || listed.Lifetime == nil {
		t.Errorf("listed: %+v", listed)
	}
	// A session has the environment of its creation, its own above the sandbox's.
	made := decode[gen.SessionCreated](t, r.do(t, "POST", path+"/sessions", `{"shell":"env","env":{"B":"own"}}`).want(t, 201))
	got = update(`{"env":{}}`)
	if got.Env != nil || got.Metadata["a"] != "1" || got.Lifetime == nil {
		t.Errorf("without its environment: %+v", got)
	}
	target, err := r.sessions.Resolve(t.Context(), made.Attachment.Token, made.Session.Id)
	if want := map[string]string{"A": "1", "B": "own"}; err != nil || !cmp.Equal(target.Session.Spec.Env, want) {
		t.Errorf("%v, %v", target.Session.Spec.Env, err)
	}
	if got = update(`{"lifetime":{"on_expiry":"none"}}`); got.Lifetime != nil || got.Metadata["a"] != "1" {
		t.Errorf("without its lifetime: %+v", got)
	}
	if got = update(`{"metadata":{}}`); len(got.Metadata) > 0 {
		t.Errorf("without its metadata: %+v", got)
	}
	if got.Execution != box.Execution || got.State != gen.SandboxStateRunning {
		t.Errorf("an update touched the machine: %+v", got)
	}
}

// TestTemplateDefaults has a template set what its sessions run with, below the sandbox's and the session's own.
func TestTemplateDefaults(t *testing.T) {
	r := newRig(t)
	r.node.change(func() {
		r.node.build = func(id string) record.TemplateStatus {
			r.node.defaults[id] = record.Defaults{Env: map[string]string{"A": "template", "B": "template", "C": "template"}, User: "app", Workdir: "/srv"}
			return record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:00", Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
		}
	})
	box := r.sandbox(t)
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"env":{"B":"sandbox","C":"sandbox"}}`).want(t, 200)
	for body, want := range map[string]record.Spec{
		`{"argv":["id"],"env":{"C":"own"}}`:                                               {Cwd: "/srv", User: "app"},
		`{"argv":["id"],"env":{"C":"own"},"user":"root"}`:                                 {Cwd: "/srv", User: "root"},
		`{"argv":["id"],"env":{"C":"own"},"cwd":"/"}`:                                     {Cwd: "/", User: "app"},
		`{"argv":["id"],"env":{"C":"own"},"timeout_seconds":7,"tty":{"rows":1,"cols":2}}`: {Cwd: "/srv", User: "app", OpenStdin: true, TTY: record.Terminal{Rows: 1, Cols: 2}, Timeout: 7 * time.Second},
	} {
		want.Argv, want.Env = []string{"id"}, map[string]string{"A": "template", "B": "sandbox", "C": "own"}
		made := decode[gen.SessionCreated](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", body).want(t, 201))
		target, err := r.sessions.Resolve(t.Context(), made.Attachment.Token, made.Session.Id)
		if diff := cmp.Diff(want, target.Session.Spec); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", body, diff, err)
		}
	}
}

// TestViewerSeesNoEnvironment has a key that may only read.
func TestViewerSeesNoEnvironment(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"env":{"A":"canary"}}`).want(t, 200)
	r.sql(t, "UPDATE api_keys SET role = 'viewer'")
	for _, path := range []string{"", "?limit=1", "/" + box.Id} {
		if a := r.do(t, "GET", "/v1/sandboxes"+path, nil).want(t, 200); strings.Contains(string(a.body), "canary") {
			t.Errorf("%s shows it: %s", path, a.body)
		}
	}
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{}`).code(t, space.CodeForbidden)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/tokens", nil).code(t, space.CodeForbidden)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/stop", nil).code(t, space.CodeForbidden)
}

func TestLifetimes(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { controllers.ExpireSandboxes(ctx, r.store, r.boxes, r.bell); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	r.template(t)
	create := func(lifetime string) string {
		t.Helper()
		return decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini","lifetime":`+lifetime+`}`).want(t, 201)).Sandbox.Id
	}
	deleted, stopped := create(`{"seconds":1,"on_expiry":"delete"}`), create(`{"seconds":1,"on_expiry":"stop"}`)
	kept := create(`{"seconds":1,"on_expiry":"delete"}`)
	r.do(t, "PATCH", "/v1/sandboxes/"+kept, `{"lifetime":{"seconds":3600,"on_expiry":"delete"}}`).want(t, 200)
	shortened := create(`{"seconds":3600,"on_expiry":"delete"}`)
	r.do(t, "PATCH", "/v1/sandboxes/"+shortened, `{"lifetime":{"seconds":1,"on_expiry":"delete"}}`).want(t, 200)
	began := time.Now()
	r.state(t, deleted, gen.SandboxStateDeleted)
	box := r.state(t, stopped, gen.SandboxStateStopped)
	r.state(t, shortened, gen.SandboxStateDeleted)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("lifetimes of a second ended after %s", took)
	}
	if box.Lifetime != nil {
		t.Errorf("a lifetime goes on after its end: %+v", box.Lifetime)
	}
	if started := r.verb(t, stopped, "start").Sandbox; started.State != gen.SandboxStateRunning || started.Lifetime != nil {
		t.Errorf("started: %+v", started)
	}
	r.state(t, kept, gen.SandboxStateRunning)
}

func TestMetrics(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id + "/metrics"
	r.do(t, "GET", path, nil).code(t, space.CodeUnavailable)
	at := time.Now().Truncate(time.Millisecond).UTC()
	report := func(f record.Figures) {
		r.node.change(func() {
			for route, e := range r.node.executions {
				e.Figures = &f
				r.node.executions[route] = e
			}
		})
		for deadline := time.Now().Add(20 * time.Second); r.at(t, box.Id) != f.At; {
			if time.Now().After(deadline) {
				t.Fatal("the figures haven't come")
			}
			r.do(t, "GET", "/v1/node", nil).want(t, 200) // takes a moment, in which the node calls
		}
	}
	report(record.Figures{At: at, CPUSeconds: 10, MemoryBytes: 1, DiskBytes: 2, ReceivedBytes: 3, SentBytes: 4})
	first := decode[gen.Metrics](t, r.do(t, "GET", path, nil).want(t, 200))
	if first.CpuPercent != nil || first.Guest != nil || first.CpuSeconds != 10 || *first.NetworkSentBytes != 4 {
		t.Errorf("the first: %+v", first)
	}
	report(record.Figures{At: at.Add(4 * time.Second), CPUSeconds: 11, Guest: &record.GuestFigures{MemoryTotalBytes: 5, Processes: 6, Load: 0.5}})
	second := decode[gen.Metrics](t, r.do(t, "GET", path, nil).want(t, 200))
	if second.CpuPercent == nil || math.Abs(*second.CpuPercent-25) > 0.01 || second.Guest == nil || second.Guest.Processes != 6 || *second.Guest.Load != 0.5 || !second.At.Equal(at.Add(4*time.Second)) {
		t.Errorf("the second: %+v", second)
	}
	judge := newJudge(t)
	judge.check(t, "GET", path, r.do(t, "GET", path, nil))
}

func (r *rig) route(t *testing.T, sandbox string) space.Route {
	t.Helper()
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	for route := range r.node.executions {
		if route.Sandbox == sandbox {
			return route
		}
	}
	t.Fatal("the node has no such sandbox")
	return space.Route{}
}

// at is when the newest figures of a sandbox are from.
func (r *rig) at(t *testing.T, sandbox string) time.Time {
	f, _, _ := r.node.sync.Figures(r.route(t, sandbox))
	return f.At
}

func TestSessionsAreListed(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	var made []string
	for range 5 {
		made = append([]string{r.session(t, box.Id).Session.Id}, made...)
	}
	begun := decode[gen.Attachment](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions/"+made[0]+"/attachments", nil).want(t, 201))
	if _, err := r.sessions.Resolve(t.Context(), begun.Token, made[0]); err != nil {
		t.Fatal(err)
	}
	r.session(t, r.sandbox(t).Id)
	var got []string
	path := "/v1/sandboxes/" + box.Id + "/sessions?limit=2"
	for range 3 {
		page := decode[gen.SessionPage](t, r.do(t, "GET", path, nil).want(t, 200))
		for _, s := range page.Items {
			got = append(got, s.Id)
			if begun := s.Id == made[0]; begun != (s.Execution != nil) || begun && *s.Execution != box.Execution.Id {
				t.Errorf("session %s of execution %v", s.Id, s.Execution)
			}
		}
		if page.NextCursor == nil {
			break
		}
		path = "/v1/sandboxes/" + box.Id + "/sessions?limit=2&cursor=" + *page.NextCursor
	}
	if !cmp.Equal(got, made) {
		t.Error(cmp.Diff(made, got))
	}
}

// TestOrdersKeepWhoAskedForThem: an order has the id of the request that it's about, so that one id finds what is done later.
func TestOrdersKeepWhoAskedForThem(t *testing.T) {
	r := newRig(t)
	r.template(t)
	created := r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`).want(t, 201)
	box := decode[gen.Operation](t, created).Sandbox.Id
	deleted := r.do(t, "DELETE", "/v1/sandboxes/"+box+"?wait=30s", nil).want(t, 200)
	got := map[nodesync.OrderKind]string{}
	r.node.change(func() {
		for _, o := range r.node.ordered {
			got[o.Kind] = o.Cause.Request
		}
	})
	want := map[nodesync.OrderKind]string{
		nodesync.EnsureExecution: created.header.Get("X-Request-Id"), nodesync.RemoveExecution: deleted.header.Get("X-Request-Id"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
