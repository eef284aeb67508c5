package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/uploads"
	"github.com/space-platform/space/internal/control/wake"
)

// build builds a template and returns it when the build has ended.
func (r *rig) build(t *testing.T, body string) gen.Template {
	t.Helper()
	return *decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", body).want(t, 201)).Template
}

func (r *rig) get(t *testing.T, ref string) gen.Template {
	t.Helper()
	return decode[gen.Template](t, r.do(t, "GET", "/v1/templates/"+ref, nil).want(t, 200))
}

// hold lets builds begin and not end.
func (r *rig) hold() {
	r.node.change(func() {
		r.node.build = func(string) record.TemplateStatus {
			return record.TemplateStatus{State: record.TemplateBuilding, Progress: "unpacking"}
		}
	})
}

// end ends a build, with lines before.
func (r *rig) end(id string, s record.TemplateStatus, lines ...record.LogLine) {
	r.node.change(func() {
		r.node.logs[id] = append(r.node.logs[id], lines...)
		r.node.templates[id] = s
	})
}

func ready() record.TemplateStatus {
	return record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:00", Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
}

func TestBuildIsOrderedAsItIsAsked(t *testing.T) {
	r := newRig(t)
	base := r.template(t)
	upload := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	got := r.build(t, `{"name":"web","template":"mini","tags":["v1","v1"],"steps":[{"run":"make"},{"copy":{"upload":"`+upload.Id+`","to":"/srv","owner":"app"}},
		{"env":{"A":"1"}},{"workdir":"/srv"},{"user":"app"}],"start_command":"serve","ready_check":"true","env":{"B":"2"},"user":"root","workdir":"/","vcpus":2,"memory_mb":256}`)
	if got.State != gen.TemplateStateReady || got.Name != "web" || !got.Current || !cmp.Equal(got.Tags, []string{"v1"}) || !strings.Contains(*got.Source, "mini") {
		t.Errorf("%+v", got)
	}
	want := record.BuildOrder{Template: got.Id, Project: r.me(t).Project.Id, Shape: record.Shape{VCPUs: 2, MemoryBytes: 256 << 20, DiskBytes: 64 << 20}, Build: record.Build{
		Source: record.Source{Template: base.Id}, StartCommand: "serve", ReadyCheck: "true",
		Defaults: record.Defaults{Env: map[string]string{"B": "2"}, User: "root", Workdir: "/"},
		Steps: []record.Step{{Run: "make"}, {Copy: &record.Copy{Upload: upload.Id, To: "/srv", Owner: "app"}}, {Set: &record.Defaults{Env: map[string]string{"A": "1"}}},
			{Set: &record.Defaults{Workdir: "/srv"}}, {Set: &record.Defaults{User: "app"}}},
	}}
	r.node.change(func() {
		if diff := cmp.Diff(want, r.node.builds[got.Id]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTemplateDefaultsAreShown(t *testing.T) {
	r := newRig(t)
	r.hold()
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"registry.example/web:1"}`).accepted(t)
	r.node.change(func() {
		r.node.defaults[o.Template.Id] = record.Defaults{Env: map[string]string{"PATH": "/app"}, User: "app", Workdir: "/app"}
		r.node.templates[o.Template.Id] = ready()
	})
	r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200)
	got := r.get(t, "web")
	if *got.User != "app" || *got.Workdir != "/app" || (*got.Env)["PATH"] != "/app" || *got.Source != "image registry.example/web:1" {
		t.Errorf("%+v", got)
	}
}

// TestVersions follows what a name, a tag and an alias mean through the API.
func TestVersions(t *testing.T) {
	r := newRig(t)
	one := r.build(t, `{"name":"web","image":"web:1","tags":["v1"]}`)
	if same := r.build(t, `{"name":"web","image":"web:1"}`); same.Id != one.Id {
		t.Error("the same content was built again")
	}
	r.do(t, "PUT", "/v1/templates/web/aliases/www", nil).want(t, 200)
	box := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"www:v1"}`).want(t, 201)).Sandbox
	two := r.build(t, `{"name":"web","image":"web:2","tags":["v2"]}`)
	if anew := r.build(t, `{"name":"web","image":"web:2","no_cache":true}`); anew.Id == two.Id {
		t.Error("a build without a cache was answered with an earlier one")
	} else {
		r.do(t, "DELETE", "/v1/templates/"+anew.Id, nil).want(t, 204)
	}
	two = r.get(t, two.Id)
	if two.Current {
		t.Error("a name that was deleted came back to an older version by itself")
	}
	for ref, want := range map[string]string{one.Id: one.Id, "web:v1": one.Id, "www:v2": two.Id, two.Id: two.Id} {
		if got := r.get(t, ref); got.Id != want {
			t.Errorf("%s means %s, want %s", ref, got.Id, want)
		}
	}
	r.do(t, "GET", "/v1/templates/web", nil).code(t, space.CodeNotFound)
	three := r.build(t, `{"name":"web","image":"web:3"}`)
	if got := r.get(t, "www"); got.Id != three.Id || !cmp.Equal(got.Aliases, []string{"www"}) {
		t.Errorf("the alias means %+v", got)
	}
	if got := r.do(t, "GET", "/v1/sandboxes/"+box.Id, nil).want(t, 200); decode[gen.Sandbox](t, got).State != gen.SandboxStateRunning {
		t.Error("the sandbox of an old version doesn't go on")
	}
	r.do(t, "PUT", "/v1/templates/"+one.Id+"/tags/stable", nil).want(t, 200)
	if got := r.get(t, "web:stable"); got.Id != one.Id || !cmp.Equal(got.Tags, []string{"stable", "v1"}) {
		t.Errorf("%+v", got)
	}
	r.do(t, "DELETE", "/v1/templates/web/tags/stable", nil).want(t, 204)
	r.do(t, "GET", "/v1/templates/web:stable", nil).code(t, space.CodeNotFound)
	r.do(t, "DELETE", "/v1/templates/web/aliases/www", nil).want(t, 204)
	r.do(t, "GET", "/v1/templates/www", nil).code(t, space.CodeNotFound)
}

func TestDeleteTemplate(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	tpl := r.get(t, "mini")
	p := r.do(t, "DELETE", "/v1/templates/mini", nil).code(t, space.CodeConflict)
	if !strings.Contains(*p.Detail, "1 sandbox") {
		t.Errorf("%s", *p.Detail)
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
	r.do(t, "DELETE", "/v1/templates/mini", nil).want(t, 204)
	r.do(t, "DELETE", "/v1/templates/mini", nil).code(t, space.CodeNotFound)
	r.do(t, "DELETE", "/v1/templates/"+tpl.Id, nil).want(t, 204)
	r.do(t, "GET", "/v1/templates/"+tpl.Id, nil).code(t, space.CodeNotFound)
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeNotFound)
	r.gone(t, tpl.Id)
	if again := r.build(t, `{"recipe":"mini"}`); again.Id == tpl.Id {
		t.Error("a deleted template came back")
	}
}

// gone waits until the node has removed a template.
func (r *rig) gone(t *testing.T, id string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case removed := <-r.node.removed:
			if removed == id {
				return
			}
		case <-deadline:
			t.Fatal("the node still has it")
		}
	}
}

// TestDeleteWhileItIsBuilt ends the build's operation.
func TestDeleteWhileItIsBuilt(t *testing.T) {
	r := newRig(t)
	begun := make(chan string, 1)
	r.node.change(func() {
		r.node.build = func(id string) record.TemplateStatus {
			begun <- id
			return record.TemplateStatus{State: record.TemplateBuilding}
		}
	})
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		t.Fatal("the build doesn't begin")
	}
	r.do(t, "DELETE", "/v1/templates/web", nil).want(t, 204)
	ended := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200))
	if ended.Status != gen.OperationStatusFailed || ended.Error.Code != string(space.CodeConflict) {
		t.Errorf("%+v", ended)
	}
	r.gone(t, o.Template.Id)
}

func TestFailedBuildNamesItsStep(t *testing.T) {
	r := newRig(t)
	r.hold()
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1","steps":[{"run":"make"},{"run":"make test"}]}`).accepted(t)
	r.end(o.Template.Id, record.TemplateStatus{State: record.TemplateFailed, FailedStep: 2, Error: space.Errorf(space.CodeGuest, "it ended with status 2")})
	ended := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200))
	if ended.Status != gen.OperationStatusFailed || *ended.Template.FailedStep != 2 || *ended.Error.Detail != "step 2: it ended with status 2" {
		t.Errorf("%+v", ended)
	}
	p := r.do(t, "POST", "/v1/templates", `{"name":"other","template":"web"}`).code(t, space.CodeTemplateNotReady)
	if !strings.Contains(*p.Detail, "failed") || !strings.Contains(*p.Detail, "step 2: it ended with status 2") {
		t.Error(*p.Detail)
	}
	if again := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1","steps":[{"run":"make"},{"run":"make test"}]}`).accepted(t); again.Id == o.Id {
		t.Error("a failed build wasn't begun anew")
	}
}

// TestRebuildIsWaitedFor has a node build a template anew by itself: who asks for it, or for a sandbox of it, waits until it's ready.
func TestRebuildIsWaitedFor(t *testing.T) {
	r := newRig(t)
	tpl := r.template(t)
	r.rebuild(t, tpl.Id)
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`).want(t, 202))
	if o.Status != gen.OperationStatusRunning || o.Template.Id != tpl.Id || o.Template.State != gen.TemplateStateBuilding {
		t.Fatalf("%+v", o)
	}
	p := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeTemplateNotReady)
	if !strings.Contains(*p.Detail, "being built") {
		t.Error(*p.Detail)
	}
	r.do(t, "POST", "/v1/sandboxes?wait=10ms", `{"template":"mini"}`).code(t, space.CodeTemplateNotReady)
	created := make(chan reply, 1)
	go func() {
		created <- r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`, "Idempotency-Key", "k")
	}()
	r.end(tpl.Id, ready())
	ended := decode[gen.Operation](t, r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200))
	if ended.Status != gen.OperationStatusSucceeded || ended.Template.State != gen.TemplateStateReady {
		t.Errorf("%+v", ended)
	}
	if box := decode[gen.Operation](t, (<-created).want(t, 201)); box.Sandbox.State != gen.SandboxStateRunning {
		t.Errorf("%+v", box)
	}
	if again := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`).want(t, 201)); again.Id != o.Id {
		t.Errorf("ready again: %+v", again)
	}
}

// rebuild has the node build a template anew, and returns when that is known.
func (r *rig) rebuild(t *testing.T, id string) {
	t.Helper()
	rung, stop := r.bell.Listen(id)
	defer stop()
	r.end(id, record.TemplateStatus{State: record.TemplateBuilding})
	deadline := time.After(20 * time.Second)
	for r.get(t, id).State != gen.TemplateStateBuilding {
		select {
		case <-rung:
		case <-deadline:
			t.Fatal("nobody hears that it's built anew")
		}
	}
}

// TestSandboxOfAFailingBuild waits for a template that then fails, and is told so.
func TestSandboxOfAFailingBuild(t *testing.T) {
	r := newRig(t)
	tpl := r.template(t)
	r.rebuild(t, tpl.Id)
	created := make(chan reply, 1)
	go func() { created <- r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`) }()
	r.end(tpl.Id, record.TemplateStatus{State: record.TemplateFailed, Error: space.Errorf(space.CodeCapacity, "the node's disk is full")})
	if p := (<-created).code(t, space.CodeTemplateNotReady); !strings.Contains(*p.Detail, "failed") || !strings.Contains(*p.Detail, "capacity_exhausted: the node's disk is full") {
		t.Error(*p.Detail)
	}
}

// numbered are lines of a build's log.
func numbered(from, to int) []record.LogLine {
	var out []record.LogLine
	for i := from; i <= to; i++ {
		out = append(out, record.LogLine{Number: int64(i), At: time.Now().Truncate(time.Microsecond), Step: i % 3, Text: fmt.Sprintf("line %d", i)})
	}
	return out
}

// TestLogPages reads a log in pages while it grows, and comes to its end once.
func TestLogPages(t *testing.T) {
	r := newRig(t)
	r.hold()
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
	first := decode[gen.LogPage](t, r.do(t, "GET", "/v1/templates/web/logs", nil).want(t, 200))
	if len(first.Items) != 0 || first.NextCursor == nil {
		t.Fatalf("%+v", first)
	}
	r.end(o.Template.Id, ready(), numbered(1, 450)...) // more than two reports take
	r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200)
	var got []string
	cursor := first.NextCursor
	for range 10 {
		page := decode[gen.LogPage](t, r.do(t, "GET", "/v1/templates/web/logs?limit=100&cursor="+*cursor, nil).want(t, 200))
		for _, l := range page.Items {
			got = append(got, l.Text)
		}
		if cursor = page.NextCursor; cursor == nil {
			break
		}
	}
	if cursor != nil || len(got) != 450 || got[0] != "line 1" || got[449] != "line 450" {
		t.Errorf("%d lines, cursor %v", len(got), cursor)
	}
}

// TestLogOfARebuild has a node build a template anew by itself: the log is that build's, and its lines go on counting.
func TestLogOfARebuild(t *testing.T) {
	r := newRig(t)
	r.hold()
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
	r.end(o.Template.Id, ready(), numbered(1, 3)...)
	r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200)
	r.rebuild(t, o.Template.Id)
	o = r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
	r.end(o.Template.Id, ready(), numbered(1, 2)...)
	r.do(t, "GET", "/v1/operations/"+o.Id+"?wait=30s", nil).want(t, 200)
	page := decode[gen.LogPage](t, r.do(t, "GET", "/v1/templates/web/logs", nil).want(t, 200))
	var got []string
	for _, l := range page.Items {
		got = append(got, fmt.Sprint(l.Number, " ", l.Text))
	}
	if want := []string{"4 line 1", "5 line 2"}; !cmp.Equal(got, want) || page.NextCursor != nil {
		t.Errorf("%v, want %v", got, want)
	}
	for _, accept := range []string{"application/json", "text/event-stream"} { // a position that the log never had
		r.do(t, "GET", "/v1/templates/web/logs", nil, "Accept", accept, "Last-Event-ID", "6").code(t, space.CodeInvalid)
		r.do(t, "GET", "/v1/templates/web/logs", nil, "Accept", accept, "Last-Event-ID", "9223372036854775807").code(t, space.CodeInvalid)
	}
}

// sseEvent is an event of a stream.
type sseEvent struct{ name, id, data string }

// follow opens a stream and sends its events; the channel is closed when it ends.
func (r *rig) follow(t *testing.T, path string, header ...string) <-chan sseEvent {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		res.Body.Close()
		t.Fatalf("status %d, %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	out := make(chan sseEvent, 1000)
	go func() {
		defer close(out)
		defer res.Body.Close()
		var e sseEvent
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			name, value, _ := strings.Cut(s.Text(), ": ")
			switch {
			case s.Text() == "" && e.name != "":
				out <- e
				e = sseEvent{}
			case name == "event":
				e.name = value
			case name == "id":
				e.id = value
			case name == "data":
				e.data = value
			}
		}
	}()
	return out
}

func next(t *testing.T, events <-chan sseEvent) sseEvent {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		return sseEvent{}
	}
}

// TestLogStream follows a build: each line once, then how it ended.
func TestLogStream(t *testing.T) {
	r := newRig(t)
	r.hold()
	o := r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
	id := o.Template.Id
	events := r.follow(t, "/v1/templates/web/logs")
	r.node.change(func() { r.node.logs[id] = append(r.node.logs[id], numbered(1, 2)...) })
	for i := 1; i <= 2; i++ {
		e := next(t, events)
		var l gen.LogLine
		if err := json.Unmarshal([]byte(e.data), &l); err != nil || e.name != "log" || e.id != fmt.Sprint(i) || l.Text != fmt.Sprintf("line %d", i) || *l.Step != i%3 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	late := r.follow(t, "/v1/templates/"+id+"/logs", "Last-Event-ID", "1")
	if e := next(t, late); e.id != "2" {
		t.Errorf("after line 1 comes %+v", e)
	}
	r.end(id, record.TemplateStatus{State: record.TemplateFailed, FailedStep: 1, Error: space.Errorf(space.CodeGuest, "no")}, numbered(3, 250)...)
	for name, stream := range map[string]<-chan sseEvent{"first": events, "late": late} {
		var got []string
		var last sseEvent
		for e := range stream {
			if last = e; e.name == "log" {
				got = append(got, e.id)
			}
		}
		if len(got) != 248 || got[0] != "3" || got[247] != "250" || !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
			t.Errorf("%s: %d lines: %v", name, len(got), got)
		}
		if last.name != "end" || !strings.Contains(last.data, `"state":"failed"`) || !strings.Contains(last.data, "step 1: no") {
			t.Errorf("%s: the end: %+v", name, last)
		}
	}
	if e := next(t, r.follow(t, "/v1/templates/web/logs", "Last-Event-ID", "250")); e.name != "end" {
		t.Errorf("a stream behind the end: %+v", e)
	}
}

// TestLogStreamEndsWithItsReason stops the server, deletes the template and revokes the key while a client follows a build.
func TestLogStreamEndsWithItsReason(t *testing.T) {
	for reason, do := range map[string]func(r *rig){
		"shutting_down": func(r *rig) { r.stop() },
		"deleted":       func(r *rig) { r.do(t, "DELETE", "/v1/templates/web", nil).want(t, 204) },
		"key_ended":     func(r *rig) { r.sql(t, "UPDATE api_keys SET revoked_at = now()") },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel() // one waits for a look
			r := newRig(t)
			r.hold()
			r.do(t, "POST", "/v1/templates", `{"name":"web","image":"web:1"}`).accepted(t)
			events := r.follow(t, "/v1/templates/web/logs")
			do(r)
			if e := next(t, events); e.name != "ended" || e.data != `{"reason":"`+reason+`"}` {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestUploads(t *testing.T) {
	r := newRig(t)
	digest := strings.Repeat("0a", 32)
	u := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{"sha256":"`+digest+`"}`).want(t, 201))
	if u.Url != "http://edge.test/v1/uploads/"+u.Id || !strings.HasPrefix(u.Token, "spaceupl_") || time.Until(u.ExpiresAt) > time.Hour || time.Until(u.ExpiresAt) < 50*time.Minute {
		t.Errorf("%+v", u)
	}
	resolver := uploads.New(r.store, r.bell, nodeName, "http://edge.test")
	got, err := resolver.Resolve(t.Context(), u.Id, u.Token)
	if err != nil || got.ID != u.Id || got.Node != nodeName || got.SHA256 != digest {
		t.Errorf("%+v, %v", got, err)
	}
	if room := uploads.Room(got); room != 8<<30 {
		t.Errorf("without a quota a project's uploads may have %d bytes", room)
	}
	r.sql(t, "UPDATE projects SET quota_disk_bytes = 5 << 20")
	if got, err = resolver.Resolve(t.Context(), u.Id, u.Token); err != nil || uploads.Room(got) != 5<<20 {
		t.Errorf("with a quota of 5 MiB a project's uploads may have %d bytes: %v", uploads.Room(got), err)
	}
	other := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	for name, x := range map[string]struct{ id, token string }{
		"another's token": {other.Id, u.Token}, "no token": {u.Id, ""}, "an API key": {u.Id, r.key}, "an unknown upload": {space.NewID(space.PrefixUpload), u.Token},
		"no upload": {"", u.Token}, "an odd upload": {"../x", u.Token}, "half a token": {u.Id, u.Token[:20]},
	} {
		if _, err := resolver.Resolve(t.Context(), x.id, x.token); space.CodeOf(err) != space.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.do(t, "GET", "/v1/node", nil, "Authorization", "Bearer "+u.Token).code(t, space.CodeUnauthenticated)
	r.sql(t, "UPDATE projects SET quota_disk_bytes = NULL")
	r.template(t)
	r.do(t, "POST", "/v1/templates?wait=30s", `{"name":"of-an-upload","template":"mini","steps":[{"copy":{"upload":"`+other.Id+`","to":"/"}}]}`).want(t, 201)
	if _, err := resolver.Resolve(t.Context(), other.Id, other.Token); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("the bytes of a build could be replaced: %v", err)
	}
	r.sql(t, "UPDATE projects SET deleted_at = now()")
	if _, err := resolver.Resolve(t.Context(), u.Id, u.Token); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("the upload of a project that is gone: %v", err)
	}
	r.sql(t, "UPDATE projects SET deleted_at = NULL")
	r.sql(t, "UPDATE uploads SET expires_at = now()")
	if _, err := resolver.Resolve(t.Context(), u.Id, u.Token); space.CodeOf(err) != space.CodeTokenExpired {
		t.Errorf("an expired token: %v", err)
	}
	var found bool
	if err := r.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM uploads x WHERE position($1 in x::text) > 0)", u.Token[len(u.Token)-52:]).Scan(&found); err != nil || found {
		t.Errorf("the token is stored: %v, %v", found, err)
	}
}

// TestSameKeySameBuild repeats a request with its key after what it was built on is gone.
func TestSameKeySameBuild(t *testing.T) {
	r := newRig(t)
	r.template(t)
	body := `{"name":"web","template":"mini","no_cache":true}`
	first := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", body, "Idempotency-Key", "k").want(t, 201))
	r.do(t, "DELETE", "/v1/templates/mini", nil).want(t, 204)
	again := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", body, "Idempotency-Key", "k").want(t, 201))
	if first.Id != again.Id {
		t.Errorf("%s, then %s", first.Id, again.Id)
	}
	r.do(t, "POST", "/v1/templates", body).code(t, space.CodeNotFound)
	r.do(t, "POST", "/v1/templates", `{"name":"web","image":"x"}`, "Idempotency-Key", "k").code(t, space.CodeIdempotencyMismatch)
}

// TestUploadsAreListedCountedAndDeleted has the node report an upload: the project's use shows it until it's deleted. A build keeps it.
func TestUploadsAreListedCountedAndDeleted(t *testing.T) {
	r := newRig(t)
	r.template(t)
	digest := strings.Repeat("0a", 32)
	u := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{"sha256":"`+digest+`"}`).want(t, 201))
	other := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	if _, err := r.store.Observe(t.Context(), record.Seen{Node: nodeName, Uploads: []record.UploadSeen{{ID: u.Id, Bytes: 1<<20 + 1}}}); err != nil {
		t.Fatal(err)
	}
	if used := r.me(t).Project.Used; used.UploadsMb != 2 {
		t.Errorf("%+v", used)
	}
	page := decode[gen.UploadPage](t, r.do(t, "GET", "/v1/uploads?limit=1", nil).want(t, 200))
	if len(page.Items) != 1 || page.Items[0].Id != other.Id || page.Items[0].Bytes != 0 || page.Items[0].Sha256 != nil || page.NextCursor == nil {
		t.Fatalf("%+v", page)
	}
	page = decode[gen.UploadPage](t, r.do(t, "GET", "/v1/uploads?cursor="+*page.NextCursor, nil).want(t, 200))
	if x := page.Items; len(x) != 1 || x[0].Id != u.Id || x[0].Bytes != 1<<20+1 || *x[0].Sha256 != digest || x[0].InUse || x[0].UsableUntil.Sub(x[0].CreatedAt) != 24*time.Hour || page.NextCursor != nil {
		t.Errorf("%+v", page)
	}
	rung, stop := r.bell.Listen(wake.Node(nodeName))
	defer stop()
	for range 2 {
		r.do(t, "DELETE", "/v1/uploads/"+u.Id, nil).want(t, 204)
	}
	select {
	case <-rung:
	case <-t.Context().Done():
		t.Fatal("the node isn't woken")
	}
	if used := r.me(t).Project.Used; used.UploadsMb != 0 {
		t.Errorf("after the delete: %+v", used)
	}
	if _, err := uploads.New(r.store, r.bell, nodeName, "http://edge.test").Resolve(t.Context(), u.Id, u.Token); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("the token of a deleted upload: %v", err)
	}
	r.do(t, "POST", "/v1/templates", `{"name":"web","rootfs":"`+u.Id+`"}`).code(t, space.CodeInvalid)
}

// TestUploadThatABuildUsesStays deletes it while the build waits.
func TestUploadThatABuildUsesStays(t *testing.T) {
	r := newRig(t)
	r.template(t)
	u := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	n := record.NewTemplate{ID: space.NewID(space.PrefixTemplate), Operation: space.NewID(space.PrefixOperation), Project: r.me(t).Project.Id, Name: "waits", Node: "elsewhere",
		Build: record.Build{Source: record.Source{Rootfs: u.Id}}, Content: func(map[string]string) ([32]byte, error) { return [32]byte{9}, nil },
		Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
	if _, err := r.store.BuildTemplate(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.do(t, "DELETE", "/v1/uploads/"+u.Id, nil).code(t, space.CodeConflict)
	if x := decode[gen.UploadPage](t, r.do(t, "GET", "/v1/uploads", nil).want(t, 200)).Items; len(x) != 1 || !x[0].InUse {
		t.Errorf("%+v", x)
	}
	r.do(t, "DELETE", "/v1/templates/"+n.ID, nil).want(t, 204)
	r.do(t, "DELETE", "/v1/uploads/"+u.Id, nil).want(t, 204)
}
