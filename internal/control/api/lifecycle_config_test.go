package api_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

func TestLifecycle(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	if l := box.Lifecycle; l == nil || !*l.AutoWake || l.Idle.Action != gen.IdleActionSuspend || *l.Idle.AfterSeconds != 21600 || l.Rolling != nil || box.ActiveAt == nil {
		t.Errorf("by default: %+v", box.Lifecycle)
	}
	update := func(body string) gen.Lifecycle {
		t.Helper()
		return *decode[gen.Sandbox](t, r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, body).want(t, 200)).Lifecycle
	}
	if l := update(`{"lifecycle":{"auto_wake":false,"idle":{"action":"delete","after_seconds":60}}}`); *l.AutoWake || l.Idle.Action != "delete" || *l.Idle.AfterSeconds != 60 {
		t.Errorf("%+v", l)
	}
	l := update(`{"lifecycle":{"rolling":{"full_every_seconds":600,"budget_mb":100}}}`)
	want := []gen.Tier{{EverySeconds: 0, ForSeconds: 3600}, {EverySeconds: 3600, ForSeconds: 86400}, {EverySeconds: 86400, ForSeconds: 604800}}
	if *l.AutoWake || l.Rolling == nil || *l.Rolling.FullEverySeconds != 600 || *l.Rolling.BudgetMb != 100 || l.Rolling.DiskEverySeconds != nil || cmp.Diff(want, *l.Rolling.Keep) != "" {
		t.Errorf("%+v", l.Rolling)
	}
	if l := update(`{"lifecycle":{"rolling":{},"idle":{"action":"none"}}}`); l.Rolling != nil || l.Idle.Action != "none" || l.Idle.AfterSeconds != nil {
		t.Errorf("%+v", l)
	}
	for _, body := range []string{
		`{"idle":{"action":"stop"}}`, `{"idle":{"action":"suspend","after_seconds":59}}`, `{"idle":{"action":"none","after_seconds":60}}`,
		`{"rolling":{"disk_every_seconds":1}}`, `{"rolling":{"budget_mb":5}}`, `{"rolling":{"full_every_seconds":60,"budget_mb":0}}`,
		`{"rolling":{"full_every_seconds":60,"keep":[{"every_seconds":-1,"for_seconds":60}]}}`,
		`{"rolling":{"full_every_seconds":60,"keep":[{"for_seconds":60}]}}`, `{"rolling":{"full_every_seconds":60,"keep":[]}}`, `{"rolling":{"full_every_seconds":60,"keep":null}}`, `{"rolling":{"keep":[]}}`,
	} {
		r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"lifecycle":`+body+`}`).code(t, space.CodeInvalid)
	}
}

// TestAutoWake attaches to what is paused or suspended, in a sandbox that allows it and in one that doesn't.
func TestAutoWake(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id)
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Fatal(err)
	}
	r.node.change(func() {
		take := r.node.take
		r.node.take = func(o nodesync.Order) record.SnapshotStatus {
			r.node.sessions[o.Snapshot] = []string{session.Session.Id}
			return take(o)
		}
	})
	token := r.token(t, box.Id).Secret
	for _, verb := range []string{"pause", "suspend"} {
		r.verb(t, box.Id, verb)
		if target, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil || target.Kept {
			t.Errorf("attach after %s: %+v, %v", verb, target, err)
		}
		r.state(t, box.Id, gen.SandboxStateRunning)
		r.verb(t, box.Id, verb)
		if _, err := r.access.ResolveToken(t.Context(), token, box.Id); err != nil {
			t.Errorf("a file after %s: %v", verb, err)
		}
		r.verb(t, box.Id, verb)
		fresh := r.session(t, box.Id)
		if target, err := r.sessions.Resolve(t.Context(), fresh.Attachment.Token, fresh.Session.Id); err != nil || target.Session.Execution == "" {
			t.Errorf("a new session after %s: %+v, %v", verb, target, err)
		}
	}
	r.verb(t, box.Id, "suspend")
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) {
			return space.ExecutionFailed, space.Errorf(space.CodeSnapshotUnusable, "its memory is damaged")
		}
	})
	_, err := r.access.ResolveToken(t.Context(), token, box.Id)
	wantCode(t, err, space.CodeSnapshotUnusable)
	if !strings.Contains(err.Error(), "its memory is damaged") {
		t.Errorf("why it can't be woken: %v", err)
	}
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil }
	})
	if target, err := r.sessions.ResolveAsleep(t.Context(), session.Attachment.Token, session.Session.Id); err != nil || !target.Kept {
		t.Errorf("who comes back by itself: %+v, %v", target, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = r.sessions.ResolveStarted(soon, session.Attachment.Token, session.Session.Id, true)
	wantCode(t, err, space.CodeTimeout)
	r.state(t, box.Id, gen.SandboxStateSuspended)
	r.verb(t, box.Id, "restore")
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"lifecycle":{"auto_wake":false}}`).want(t, 200)
	r.verb(t, box.Id, "suspend")
	if target, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil || !target.Kept {
		t.Errorf("of what is kept: %+v, %v", target, err)
	}
	_, err = r.access.ResolveToken(t.Context(), token, box.Id)
	wantCode(t, err, space.CodeConflict)
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"true"}`).code(t, space.CodeConflict)
	r.state(t, box.Id, gen.SandboxStateSuspended)
}

// TestIdleness moves the clock of what was last done with sandboxes.
func TestIdleness(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	find := func(after time.Duration) []record.Idling {
		t.Helper()
		rows, err := r.store.Idling(t.Context(), time.Now().Add(after), record.Idling{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if rows := find(6*time.Hour - time.Minute); len(rows) != 0 {
		t.Errorf("idle too early: %+v", rows)
	}
	rows := find(6*time.Hour + record.ActiveWithin)
	if len(rows) != 1 || rows[0].ID != box.Id || rows[0].Idle != (record.Idle{After: 6 * time.Hour, Action: record.IdleSuspend}) {
		t.Fatalf("%+v", rows)
	}
	if done, err := r.boxes.EndIdle(t.Context(), rows[0]); done || err != nil {
		t.Errorf("ended before its time: %v", err)
	}
	r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '7 hours' WHERE id = $1", box.Id)
	rows = find(0)
	// Somebody attaches at the last moment.
	session := r.session(t, box.Id)
	if err := r.seen.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := r.boxes.EndIdle(t.Context(), rows[0]); done || err != nil || len(find(0)) != 0 {
		t.Errorf("ended while it was used: %v", err)
	}
	r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '7 hours' WHERE id = $1", box.Id)
	if done, err := r.boxes.EndIdle(t.Context(), find(0)[0]); !done || err != nil {
		t.Errorf("not ended: %v", err)
	}
	r.state(t, box.Id, gen.SandboxStateSuspended)
	if rows := find(1000 * time.Hour); len(rows) != 0 {
		t.Errorf("a suspended one is suspended again: %+v", rows)
	}
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Errorf("it isn't woken: %v", err)
	}
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"lifecycle":{"idle":{"action":"delete","after_seconds":60}}}`).want(t, 200)
	r.verb(t, box.Id, "suspend")
	r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '7 hours' WHERE id = $1", box.Id)
	if done, err := r.boxes.EndIdle(t.Context(), find(0)[0]); !done || err != nil {
		t.Errorf("not deleted: %v", err)
	}
	r.state(t, box.Id, gen.SandboxStateDeleted)
}

// TestNobodyIsIdleTooEarly has a sandbox used again and again so soon that it isn't written each time: the time that it says is counted from the last.
func TestNobodyIsIdleTooEarly(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	r.do(t, "PATCH", "/v1/sandboxes/"+box.Id, `{"lifecycle":{"idle":{"action":"suspend","after_seconds":60}}}`).want(t, 200)
	start := time.Unix(r.active(t, box.Id), 0)
	r.sql(t, "UPDATE sandboxes SET active_at = $2 WHERE id = $1", box.Id, start)
	last := start.Add(record.ActiveWithin)
	if err := r.store.Touch(t.Context(), map[string]time.Time{box.Id: last}); err != nil {
		t.Fatal(err)
	}
	if at := r.active(t, box.Id); at != start.Unix() {
		t.Fatalf("it's written %d s after what is", at-start.Unix())
	}
	idle := func(at time.Time) bool {
		t.Helper()
		rows, err := r.store.Idling(t.Context(), at, record.Idling{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows) == 1
	}
	if idle(last.Add(time.Minute - time.Second)) {
		t.Error("it's idle less than a minute after it was used")
	}
	if !idle(last.Add(time.Minute)) {
		t.Error("it isn't idle a minute after it was used")
	}
	rows, err := r.store.Idling(t.Context(), last.Add(time.Hour), record.Idling{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '80 seconds' WHERE id = $1", box.Id)
	if done, err := r.boxes.EndIdle(t.Context(), rows[0]); done || err != nil {
		t.Errorf("it's suspended too early: %v", err)
	}
	r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '91 seconds' WHERE id = $1", box.Id)
	if done, err := r.boxes.EndIdle(t.Context(), rows[0]); !done || err != nil {
		t.Errorf("it isn't suspended: %v", err)
	}
}

// TestALifetimeThatEndsInASnapshot suspends at the deadline.
func TestALifetimeThatEndsInASnapshot(t *testing.T) {
	r := newRig(t)
	r.template(t)
	for _, pauses := range []bool{false, true} {
		box := *operation(t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini","lifetime":{"seconds":3600,"on_expiry":"suspend"}}`), 201, "succeeded").Sandbox
		if pauses {
			r.verb(t, box.Id, "pause")
		}
		r.sql(t, "UPDATE sandboxes SET expires_at = now() WHERE id = $1", box.Id)
		rows, err := r.store.Expiring(t.Context(), record.Expiring{}, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		if done, err := r.boxes.Expire(t.Context(), rows[0]); !done || err != nil {
			t.Fatal(err)
		}
		if s := r.state(t, box.Id, gen.SandboxStateSuspended); s.Lifetime != nil || s.RecoveryPoint == nil {
			t.Errorf("%+v", s)
		}
		if types := r.eventTypes(t, box.Id); !slices.Contains(types, "sandbox.suspended") {
			t.Errorf("%v", types)
		}
	}
}

// text is a document of the API.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestATemplateSaysWhatItsSandboxesDo builds a template with a lifecycle, replaces that without a build, and makes sandboxes of it.
func TestATemplateSaysWhatItsSandboxesDo(t *testing.T) {
	r := newRig(t)
	r.template(t)
	of := r.build(t, `{"name":"own","template":"mini","lifecycle":{"idle":{"action":"none"},"rolling":{"full_every_seconds":600}}}`)
	if l := of.Lifecycle; l == nil || !*l.AutoWake || l.Idle.Action != "none" || *l.Rolling.FullEverySeconds != 600 {
		t.Fatalf("the template has %+v", l)
	}
	create := func(rest string) gen.Lifecycle {
		t.Helper()
		o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{`+rest+`}`).want(t, 201))
		return *o.Sandbox.Lifecycle
	}
	if diff := cmp.Diff(text(t, of.Lifecycle), text(t, create(`"template":"own"`))); diff != "" {
		t.Errorf("a sandbox that says nothing: %s", diff)
	}
	if l := create(`"template":"own","lifecycle":{"auto_wake":false,"rolling":{}}`); *l.AutoWake || l.Rolling != nil || l.Idle.Action != "none" {
		t.Errorf("a sandbox that says something: %+v", l)
	}
	again := r.build(t, `{"name":"own","template":"mini","lifecycle":{"rolling":{"disk_every_seconds":60}}}`)
	if again.Id != of.Id || again.Lifecycle.Idle.Action != "suspend" || again.Lifecycle.Rolling.FullEverySeconds != nil || *again.Lifecycle.Rolling.DiskEverySeconds != 60 {
		t.Errorf("replaced: %s instead of %s, %+v", again.Id, of.Id, again.Lifecycle)
	}
	if same := r.build(t, `{"name":"own","template":"mini"}`); same.Id != of.Id || text(t, again.Lifecycle) != text(t, same.Lifecycle) {
		t.Errorf("nothing said: %+v", same.Lifecycle)
	}
	box := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"own","lifecycle":{"rolling":{}}}`).want(t, 201)).Sandbox
	snapshot := operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", `{"kind":"disk"}`), 201, "succeeded").Snapshot.Id
	if diff := cmp.Diff(text(t, again.Lifecycle), text(t, create(`"snapshot":"`+snapshot+`"`))); diff != "" {
		t.Errorf("of a snapshot: %s", diff)
	}
	r.do(t, "POST", "/v1/templates", `{"name":"bad","template":"mini","lifecycle":{"idle":{"action":"suspend","after_seconds":1}}}`).code(t, space.CodeInvalid)
}

// TestWhatIsActivity goes through the list in docs/states.md with a sandbox that was idle for seven hours: what is on it keeps the sandbox from being suspended, what
// isn't doesn't.
func TestWhatIsActivity(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id
	session, token := r.session(t, box.Id), r.token(t, box.Id).Secret
	if _, err := r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id); err != nil {
		t.Fatal(err)
	}
	patch := func(body string) { r.do(t, "PATCH", path, body).want(t, 200) }
	var route space.Route
	report := func(change func(*nodesync.ExecutionReport)) {
		r.node.change(func() {
			for now, e := range r.node.executions {
				if now.Sandbox == box.Id {
					route = now
					change(&e)
					r.node.executions[now] = e
				}
			}
		})
	}
	var sent uint64
	send := func(bytes uint64) {
		for range 2 { // figures tell what was sent since those before
			sent += bytes
			at := time.Now()
			report(func(e *nodesync.ExecutionReport) { e.Figures = &record.Figures{At: at, SentBytes: sent} })
			r.node.without(t, func() bool {
				f, _, _ := r.node.sync.Figures(route)
				return f.SentBytes == sent
			})
		}
	}
	for _, x := range []struct {
		name   string
		does   func()
		counts bool
	}{
		{"nothing", func() {}, false},
		{"its state is read", func() { r.do(t, "GET", path, nil).want(t, 200) }, false},
		{"sandboxes are listed", func() { r.do(t, "GET", "/v1/sandboxes", nil).want(t, 200) }, false},
		{"its events are read", func() { r.do(t, "GET", "/v1/events?sandbox="+box.Id, nil).want(t, 200) }, false},
		{"it's changed", func() { patch(`{"metadata":{"a":"b"}}`) }, true},
		{"a verb", func() { r.verb(t, box.Id, "pause") }, true},
		{"another verb", func() { r.verb(t, box.Id, "resume") }, true},
		{"a snapshot", func() { operation(t, r.do(t, "POST", path+"/snapshots?wait=30s", nil), 201, "succeeded") }, true},
		{"a session", func() { r.session(t, box.Id) }, true},
		{"an attach", func() { _, _ = r.sessions.Resolve(t.Context(), session.Attachment.Token, session.Session.Id) }, true},
		{"a file", func() { _, _ = r.access.ResolveToken(t.Context(), token, box.Id) }, true},
		{"a client is there, or bytes pass", func() {
			at := time.Now()
			report(func(e *nodesync.ExecutionReport) { e.Active = at })
			r.node.without(t, func() bool { return r.active(t, box.Id) > at.Unix()-60 })
		}, true},
		{"it sends something", func() { report(func(e *nodesync.ExecutionReport) { e.Active = time.Time{} }); send(1 << 20) }, false},
		{"it says that this counts", func() { patch(`{"lifecycle":{"idle":{"action":"suspend","egress":true}}}`) }, true},
		{"and sends something", func() {
			at := time.Now()
			send(1 << 20)
			r.node.without(t, func() bool { return r.active(t, box.Id) > at.Unix()-60 })
		}, true},
		{"its kernel sends a few bytes", func() { send(100) }, false},
		{"it takes a snapshot of itself", func() {
			r.sql(t, "UPDATE sandboxes SET rolling = '{\"full_every\":60000000000,\"keep\":[]}', created_at = now() - interval '1 hour' WHERE id = $1", box.Id)
			rows, err := r.store.ToRoll(t.Context(), time.Now(), "", 1)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%+v, %v", rows, err)
			}
			if taken, err := r.boxes.Roll(t.Context(), rows[0].Project, box.Id); err != nil || !taken {
				t.Fatal(err)
			}
		}, false},
	} {
		if err := r.seen.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.sql(t, "UPDATE sandboxes SET active_at = now() - interval '7 hours' WHERE id = $1", box.Id)
		x.does()
		if err := r.seen.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := r.store.Idling(t.Context(), time.Now(), record.Idling{}, 10)
		if err != nil || (len(rows) == 0) != x.counts {
			t.Errorf("%s: idle are %+v, %v", x.name, rows, err)
		}
	}
}

// active is when something was last done with a sandbox, once what was seen is written, in seconds.
func (r *rig) active(t *testing.T, sandbox string) int64 {
	t.Helper()
	if err := r.seen.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+sandbox, nil).want(t, 200)).ActiveAt.Unix()
}
