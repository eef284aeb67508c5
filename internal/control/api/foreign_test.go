package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// belongings are ids of things of one organisation, by the names of path parameters.
type belongings map[string]string

// belong makes one of everything.
func (r *rig) belong(t *testing.T) belongings {
	t.Helper()
	box := r.sandbox(t)
	me := r.me(t)
	user := decode[gen.User](t, r.do(t, "POST", "/v1/users", `{"name":"someone","role":"viewer"}`).want(t, 201))
	project := decode[gen.Project](t, r.do(t, "POST", "/v1/projects", `{"name":"another"}`).want(t, 201))
	r.do(t, "PUT", "/v1/templates/mini/tags/stable", nil).want(t, 200)
	r.do(t, "PUT", "/v1/templates/mini/aliases/small", nil).want(t, 200)
	return belongings{
		"sandbox": box.Id, "session": r.session(t, box.Id).Session.Id, "template": "mini", "tag": "stable", "alias": "small",
		"operation": decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`)).Id,
		"project":   project.Id, "user": user.Id, "key": me.Key.Id, "token": r.token(t, box.Id).Token.Id,
		"upload":   decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201)).Id,
		"snapshot": operation(t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/snapshots?wait=30s", nil), 201, "succeeded").Snapshot.Id,
	}
}

// nobodys are ids of things that don't exist.
func nobodys() belongings {
	return belongings{
		"sandbox": space.NewID(space.PrefixSandbox), "session": space.NewID(space.PrefixSession), "template": "nothing", "tag": "none", "alias": "none",
		"operation": space.NewID(space.PrefixOperation), "project": space.NewID(space.PrefixProject), "user": space.NewID(space.PrefixUser),
		"key": space.NewID(space.PrefixKey), "token": space.NewID(space.PrefixToken), "upload": space.NewID(space.PrefixUpload),
		"snapshot": space.NewID(space.PrefixSnapshot),
	}
}

// bodies are well-formed bodies of the operations that take one.
var bodies = map[string]string{
	"createSession": `{"shell":"id"}`, "updateProject": `{"name":"mine-now"}`, "updateUser": `{"role":"owner"}`,
	"updateSandbox": `{"metadata":{"mine":"now"}}`, "createFileURL": `{"path":"/etc/passwd","operation":"write"}`,
}

var parameterRE = regexp.MustCompile(`\{([a-z]+)\}`)

// fill puts ids in a path.
func fill(t *testing.T, path string, of belongings) string {
	return parameterRE.ReplaceAllStringFunc(path, func(p string) string {
		id, ok := of[strings.Trim(p, "{}")]
		if !ok {
			t.Fatalf("%s: add a %s to the belongings, so that this test knows one of somebody else's", path, p)
		}
		return id
	})
}

var requestRE = regexp.MustCompile(`req_[a-z2-7]{26}`)

// said is an answer without what tells requests apart.
func said(a reply) (string, http.Header) {
	h := a.header.Clone()
	h.Del("Date")
	h.Set("X-Request-Id", requestRE.ReplaceAllString(h.Get("X-Request-Id"), "req"))
	return requestRE.ReplaceAllString(string(a.body), "req"), h
}

// TestForeignIsMissing calls every operation with an id in its path, as an owner of another organisation: byte for byte, what is somebody
// else's is answered like what doesn't exist. The owner's own answer shows that it's there.
func TestForeignIsMissing(t *testing.T) {
	r := newRig(t)
	theirs, nothing := r.belong(t), nobodys()
	owner := r.key
	stranger := r.stranger(t)
	strangersBox := theirs["sandbox"]
	checked := 0
	for pattern, o := range served(t) {
		method, path, _ := strings.Cut(pattern, " ")
		if !parameterRE.MatchString(path) {
			continue
		}
		var body any
		if o.RequestBody != nil {
			b, ok := bodies[o.OperationID]
			if !ok && o.RequestBody.Value.Required {
				t.Fatalf("%s: add a body to this test", o.OperationID)
			}
			body = b
			if b == "" {
				body = "{}"
			}
		}
		r.key = stranger
		foreign, missing := r.do(t, method, fill(t, path, theirs), body), r.do(t, method, fill(t, path, nothing), body)
		foreign.code(t, space.CodeNotFound)
		sameAnswer(t, o.OperationID, foreign, missing)
		checked++
	}
	if checked < 10 {
		t.Errorf("only %d operations have an id in their path", checked)
	}
	if page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil).want(t, 200)); len(page.Items) != 0 {
		t.Errorf("a stranger's list: %+v", page)
	}
	if page := decode[gen.EventPage](t, r.do(t, "GET", "/v1/events?sandbox="+strangersBox, nil).want(t, 200)); len(page.Items) != 0 {
		t.Errorf("a stranger's events: %+v", page)
	}
	r.key = owner
	for _, path := range []string{"/v1/sandboxes/{sandbox}", "/v1/sandboxes/{sandbox}/sessions/{session}", "/v1/operations/{operation}", "/v1/templates/{template}", "/v1/projects/{project}"} {
		r.do(t, "GET", fill(t, path, theirs), nil).want(t, 200)
	}
}

func sameAnswer(t *testing.T, operation string, foreign, missing reply) {
	t.Helper()
	a, ah := said(foreign)
	b, bh := said(missing)
	if a != b || foreign.status != missing.status {
		t.Errorf("%s: of somebody else's %d %s\nof nobody's %d %s", operation, foreign.status, a, missing.status, b)
	}
	for name := range ah {
		if ah.Get(name) != bh.Get(name) {
			t.Errorf("%s: %s is %q of somebody else's, %q of nobody's", operation, name, ah.Get(name), bh.Get(name))
		}
	}
}

// TestForeignPartsAreMissing has an own sandbox with a session of somebody else's, and bodies that name things of somebody else's.
func TestForeignPartsAreMissing(t *testing.T) {
	r := newRig(t)
	theirs, nothing := r.belong(t), nobodys()
	r.key = r.stranger(t)
	mine := r.sandbox(t).Id
	for _, x := range []struct{ name, method, path, body string }{
		{"session", "GET", "/v1/sandboxes/" + mine + "/sessions/{session}", ""},
		{"attachment", "POST", "/v1/sandboxes/" + mine + "/sessions/{session}/attachments", ""},
		{"token", "DELETE", "/v1/sandboxes/" + mine + "/tokens/{token}", ""},
		{"template of a sandbox", "POST", "/v1/sandboxes", `{"template":"{template}"}`},
		{"snapshot of a sandbox", "POST", "/v1/sandboxes", `{"snapshot":"{snapshot}"}`},
		{"project of a key", "POST", "/v1/keys", `{"name":"k","project":"{project}"}`},
		{"user of a key", "POST", "/v1/keys", `{"name":"k","user":"{user}"}`},
	} {
		if x.name == "template of a sandbox" {
			theirs["template"] = r.templateOf(t, theirs["sandbox"])
			nothing["template"] = space.NewID(space.PrefixTemplate)
		}
		foreign := r.do(t, x.method, fill(t, x.path, theirs), orNil(fill(t, x.body, theirs)))
		foreign.code(t, space.CodeNotFound)
		sameAnswer(t, x.name, foreign, r.do(t, x.method, fill(t, x.path, nothing), orNil(fill(t, x.body, nothing))))
	}
}

// templateOf is the id of a sandbox's template, whosever it is.
func (r *rig) templateOf(t *testing.T, sandbox string) (id string) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), "SELECT template FROM sandboxes WHERE id = $1", sandbox).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}
