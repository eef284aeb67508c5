package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// exchange is a request and what must come of it.
type exchange struct {
	name   string
	method string
	path   string
	body   any
	header []string
	status int
	code   space.Code // of a problem
	field  string
}

func TestConformance(t *testing.T) {
	r := newRig(t)
	judge := newJudge(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id).Session.Id
	deleted := r.sandbox(t).Id
	r.do(t, "DELETE", "/v1/sandboxes/"+deleted+"?wait=30s", nil).want(t, 200)
	for _, x := range slicesConcat(goodExchanges(box.Id, session, deleted), doorExchanges(box.Id), createExchanges(), sessionExchanges(envBox(t, r)), lifecycleExchanges(box.Id, deleted), templateExchanges(), missingExchanges(box.Id)) {
		t.Run(x.name, func(t *testing.T) {
			a := r.do(t, x.method, x.path, x.body, x.header...)
			judge.check(t, x.method, x.path, a)
			if x.code == "" {
				a.want(t, x.status)
				return
			}
			if p := a.code(t, x.code); x.field != "" && (p.Field == nil || *p.Field != x.field) {
				t.Errorf("the problem names field %v, want %s: %s", p.Field, x.field, a.body)
			}
		})
	}
}

func slicesConcat(tables ...[]exchange) (out []exchange) {
	for _, t := range tables {
		out = append(out, t...)
	}
	return out
}

func goodExchanges(box, session, deleted string) []exchange {
	return []exchange{
		{name: "health", method: "GET", path: "/healthz", header: []string{"Authorization", ""}, status: 200},
		{name: "contract", method: "GET", path: "/openapi.yaml", header: []string{"Authorization", ""}, status: 200},
		{name: "node", method: "GET", path: "/v1/node", status: 200},
		{name: "list", method: "GET", path: "/v1/sandboxes", status: 200},
		{name: "list one", method: "GET", path: "/v1/sandboxes?limit=1", status: 200},
		{name: "get", method: "GET", path: "/v1/sandboxes/" + box, status: 200},
		{name: "head", method: "HEAD", path: "/v1/sandboxes/" + box, status: 200},
		{name: "get deleted", method: "GET", path: "/v1/sandboxes/" + deleted, status: 200},
		{name: "delete deleted", method: "DELETE", path: "/v1/sandboxes/" + deleted, status: 200},
		{name: "templates", method: "GET", path: "/v1/templates", status: 200},
		{name: "template", method: "GET", path: "/v1/templates/mini", status: 200},
		{name: "template again", method: "POST", path: "/v1/templates", body: `{"recipe":"mini"}`, status: 201},
		{name: "create with the shape", method: "POST", path: "/v1/sandboxes?wait=30s", body: `{"template":"mini","vcpus":1,"memory_mb":128}`, status: 201},
		{name: "create with metadata", method: "POST", path: "/v1/sandboxes?wait=30s", body: map[string]any{"template": "mini", "metadata": metadata(32, 64, 1024)}, status: 201},
		{name: "session argv", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: `{"argv":["id"],"cwd":"/","env":{"A_1":"x"},"user":"root","stdin":"aGk="}`, status: 201},
		{name: "session shell", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: `{"shell":"echo $HOME","user":"1000"}`, status: 201},
		{name: "session with all stdin", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: map[string]any{"shell": "cat", "stdin": make([]byte, 1<<20)}, status: 201},
		{name: "session with a terminal", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: `{"shell":"top","tty":{"rows":24,"cols":80},"timeout_seconds":604800}`, status: 201},
		{name: "session with an open stdin", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: `{"shell":"cat","open_stdin":true}`, status: 201},
		{name: "session", method: "GET", path: "/v1/sandboxes/" + box + "/sessions/" + session, status: 200},
		{name: "sessions", method: "GET", path: "/v1/sandboxes/" + box + "/sessions?limit=2", status: 200},
		{name: "create with another shape", method: "POST", path: "/v1/sandboxes?wait=30s", body: `{"template":"mini","vcpus":2,"memory_mb":1024,"disk_mb":65}`, status: 201},
		{name: "create with all else", method: "POST", path: "/v1/sandboxes?wait=30s", body: `{"template":"mini","env":{"A":"b"},"lifetime":{"seconds":3600,"on_expiry":"stop"}}`, status: 201},
		{name: "update", method: "PATCH", path: "/v1/sandboxes/" + box, body: `{"metadata":{"a":"b"},"env":{"A":"b"},"lifetime":{"seconds":60,"on_expiry":"delete"}}`, status: 200},
		{name: "update nothing", method: "PATCH", path: "/v1/sandboxes/" + box, body: `{}`, status: 200},
		{name: "update back", method: "PATCH", path: "/v1/sandboxes/" + box, body: `{"metadata":{},"env":{},"lifetime":{"on_expiry":"none"}}`, status: 200},
		{name: "start what runs", method: "POST", path: "/v1/sandboxes/" + box + "/start", status: 200},
		{name: "token", method: "POST", path: "/v1/sandboxes/" + box + "/tokens", body: `{"name":"ü","expires_in_seconds":1}`, status: 201},
		{name: "token without a body", method: "POST", path: "/v1/sandboxes/" + box + "/tokens", status: 201},
		{name: "tokens", method: "GET", path: "/v1/sandboxes/" + box + "/tokens", status: 200},
		{name: "file URL", method: "POST", path: "/v1/sandboxes/" + box + "/file-urls", body: `{"path":"/a b","operation":"read","user":"root","expires_in_seconds":604800}`, status: 201},
		{name: "no more file URLs", method: "DELETE", path: "/v1/sandboxes/" + box + "/file-urls", status: 204},
		{name: "attachment", method: "POST", path: "/v1/sandboxes/" + box + "/sessions/" + session + "/attachments", status: 201},
		{name: "content type with charset", method: "POST", path: "/v1/templates", body: `{"recipe":"mini"}`, header: []string{"Content-Type", "application/json; charset=utf-8"}, status: 201},
	}
}

// doorExchanges are refused before any use case sees them.
func doorExchanges(box string) []exchange {
	large := `{"template":"` + strings.Repeat("a", 2<<20) + `"}`
	return []exchange{
		{name: "no key", method: "GET", path: "/v1/sandboxes", header: []string{"Authorization", ""}, code: space.CodeUnauthenticated},
		{name: "another scheme", method: "GET", path: "/v1/sandboxes", header: []string{"Authorization", "Basic Zm9vOmJhcg=="}, code: space.CodeUnauthenticated},
		{name: "no such key", method: "GET", path: "/v1/sandboxes", header: []string{"Authorization", "Bearer space_aaaaaaaa_" + strings.Repeat("a", 52)}, code: space.CodeUnauthenticated},
		{name: "attachment token", method: "GET", path: "/v1/sandboxes", header: []string{"Authorization", "Bearer spaceatt_" + strings.Repeat("a", 52)}, code: space.CodeUnauthenticated},
		{name: "no such path", method: "GET", path: "/v1/nothing", code: space.CodeNotFound},
		{name: "root", method: "GET", path: "/", code: space.CodeNotFound},
		{name: "trailing slash", method: "GET", path: "/v1/sandboxes/", code: space.CodeNotFound},
		{name: "unclean path", method: "GET", path: "/v1//sandboxes", code: space.CodeNotFound},
		{name: "parent path", method: "GET", path: "/v1/sandboxes/../node", code: space.CodeNotFound},
		{name: "attach is the edge's", method: "GET", path: "/v1/sessions/ses_a/attach", code: space.CodeNotFound},
		{name: "wrong method", method: "PUT", path: "/v1/sandboxes", body: `{}`, code: space.CodeMethod},
		{name: "odd method", method: "BREW", path: "/v1/sandboxes/" + box, code: space.CodeMethod},
		{name: "options", method: "OPTIONS", path: "/v1/sandboxes", code: space.CodeMethod},
		{name: "unknown query", method: "GET", path: "/v1/sandboxes?colour=red", code: space.CodeInvalid, field: "colour"},
		{name: "repeated query", method: "GET", path: "/v1/sandboxes?limit=1&limit=2", code: space.CodeInvalid, field: "limit"},
		{name: "malformed query", method: "GET", path: "/v1/sandboxes?limit=%zz", code: space.CodeInvalid, field: "query"},
		{name: "limit of 0", method: "GET", path: "/v1/sandboxes?limit=0", code: space.CodeInvalid, field: "limit"},
		{name: "limit of 101", method: "GET", path: "/v1/sandboxes?limit=101", code: space.CodeInvalid, field: "limit"},
		{name: "limit of x", method: "GET", path: "/v1/sandboxes?limit=x", code: space.CodeInvalid, field: "limit"},
		{name: "invented cursor", method: "GET", path: "/v1/sandboxes?cursor=abc", code: space.CodeInvalid, field: "cursor"},
		{name: "cursor of another table", method: "GET", path: "/v1/sandboxes?cursor=" + cursor("1.op_x"), code: space.CodeInvalid, field: "cursor"},
		{name: "cursor out of time", method: "GET", path: "/v1/sandboxes?cursor=" + cursor("9223372036854775807."+space.NewID(space.PrefixSandbox)), code: space.CodeInvalid, field: "cursor"},
		{name: "wait without unit", method: "DELETE", path: "/v1/sandboxes/" + box + "?wait=30", code: space.CodeInvalid, field: "wait"},
		{name: "wait too long", method: "DELETE", path: "/v1/sandboxes/" + box + "?wait=301s", code: space.CodeInvalid, field: "wait"},
		{name: "no body", method: "POST", path: "/v1/sandboxes", code: space.CodeInvalid},
		{name: "empty body", method: "POST", path: "/v1/sandboxes", body: "", code: space.CodeInvalid},
		{name: "not JSON", method: "POST", path: "/v1/sandboxes", body: `{"template":`, code: space.CodeInvalid},
		{name: "a list", method: "POST", path: "/v1/sandboxes", body: `[]`, code: space.CodeInvalid},
		{name: "two objects", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini"}{}`, code: space.CodeInvalid},
		{name: "unknown field", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini","disk":1}`, code: space.CodeInvalid, field: "disk"},
		{name: "field in another case", method: "POST", path: "/v1/sandboxes", body: `{"Template":"mini"}`, code: space.CodeInvalid, field: "Template"},
		{name: "field twice", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini","template":"base"}`, code: space.CodeInvalid, field: "template"},
		{name: "null", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini","vcpus":null}`, code: space.CodeInvalid, field: "vcpus"},
		{name: "wrong type", method: "POST", path: "/v1/sandboxes", body: `{"template":7}`, code: space.CodeInvalid, field: "template"},
		{name: "fraction", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini","vcpus":1.5}`, code: space.CodeInvalid, field: "vcpus"},
		{name: "wrong type within", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini","metadata":{"a":1}}`, code: space.CodeInvalid, field: "metadata.a"},
		{name: "too large", method: "POST", path: "/v1/sandboxes", body: large, code: space.CodeTooLarge},
		{name: "a parameter that isn't UTF-8", method: "GET", path: "/v1/sandboxes?metadata=%FF%3Db", code: space.CodeInvalid, field: "metadata"},
		{name: "not application/json", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini"}`, header: []string{"Content-Type", "text/plain"}, code: space.CodeMediaType, field: "Content-Type"},
		{name: "idempotency key too long", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini"}`, header: []string{"Idempotency-Key", strings.Repeat("k", 129)}, code: space.CodeInvalid, field: "Idempotency-Key"},
		{name: "empty idempotency key", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini"}`, header: []string{"Idempotency-Key", " "}, code: space.CodeInvalid, field: "Idempotency-Key"},
		{name: "idempotency key with a blank", method: "POST", path: "/v1/sandboxes", body: `{"template":"mini"}`, header: []string{"Idempotency-Key", "a b"}, code: space.CodeInvalid, field: "Idempotency-Key"},
	}
}

func cursor(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func createExchanges() []exchange {
	create := func(name string, body any, code space.Code, field string) exchange {
		return exchange{name: "create: " + name, method: "POST", path: "/v1/sandboxes", body: body, code: code, field: field}
	}
	return []exchange{
		create("no template", `{}`, space.CodeInvalid, "template"),
		create("empty template", `{"template":""}`, space.CodeInvalid, "template"),
		create("long template", map[string]any{"template": strings.Repeat("a", 131)}, space.CodeInvalid, "template"),
		create("unknown template", `{"template":"maxi"}`, space.CodeNotFound, ""),
		create("NUL template", `{"template":"mi\u0000ni"}`, space.CodeNotFound, ""),
		create("no vcpus", `{"template":"mini","vcpus":0}`, space.CodeInvalid, "vcpus"),
		create("many vcpus", `{"template":"mini","vcpus":33}`, space.CodeInvalid, "vcpus"),
		create("more vcpus than the node has", `{"template":"mini","vcpus":3}`, space.CodeShapeUnavailable, "vcpus"),
		create("huge number", `{"template":"mini","vcpus":1e30}`, space.CodeInvalid, "vcpus"),
		create("little memory", `{"template":"mini","memory_mb":63}`, space.CodeInvalid, "memory_mb"),
		create("much memory", `{"template":"mini","memory_mb":262145}`, space.CodeInvalid, "memory_mb"),
		create("more memory than the node has", `{"template":"mini","memory_mb":1025}`, space.CodeShapeUnavailable, "memory_mb"),
		create("no disk", `{"template":"mini","disk_mb":63}`, space.CodeInvalid, "disk_mb"),
		create("large disk", `{"template":"mini","disk_mb":1048577}`, space.CodeInvalid, "disk_mb"),
		create("bad variable", `{"template":"mini","env":{"1A":""}}`, space.CodeInvalid, "env"),
		create("NUL variable", `{"template":"mini","env":{"A":"\u0000"}}`, space.CodeInvalid, "env.A"),
		create("many variables", map[string]any{"template": "mini", "env": variables(257)}, space.CodeInvalid, "env"),
		create("lifetime of nothing", `{"template":"mini","lifetime":{}}`, space.CodeInvalid, "lifetime.on_expiry"),
		create("lifetime without a time", `{"template":"mini","lifetime":{"on_expiry":"stop"}}`, space.CodeInvalid, "lifetime.deadline"),
		create("lifetime with two", `{"template":"mini","lifetime":{"on_expiry":"stop","seconds":1,"deadline":"2999-01-01T00:00:00Z"}}`, space.CodeInvalid, "lifetime.seconds"),
		create("lifetime that is over", `{"template":"mini","lifetime":{"on_expiry":"stop","deadline":"1999-01-01T00:00:00Z"}}`, space.CodeInvalid, "lifetime.deadline"),
		create("lifetime without end", `{"template":"mini","lifetime":{"on_expiry":"stop","deadline":"2999-01-01T00:00:00Z"}}`, space.CodeInvalid, "lifetime.deadline"),
		create("lifetime of no seconds", `{"template":"mini","lifetime":{"on_expiry":"stop","seconds":0}}`, space.CodeInvalid, "lifetime.seconds"),
		create("lifetime of many seconds", `{"template":"mini","lifetime":{"on_expiry":"stop","seconds":31536001}}`, space.CodeInvalid, "lifetime.seconds"),
		create("lifetime with no time", `{"template":"mini","lifetime":{"on_expiry":"stop","deadline":"soon"}}`, space.CodeInvalid, "lifetime.deadline"),
		create("lifetime of another kind", `{"template":"mini","lifetime":{"on_expiry":"pause","seconds":1}}`, space.CodeInvalid, "lifetime.on_expiry"),
		create("no lifetime", `{"template":"mini","lifetime":{"on_expiry":"none"}}`, space.CodeInvalid, "lifetime.on_expiry"),
		create("lifetime with an unknown field", `{"template":"mini","lifetime":{"on_expiry":"stop","minutes":1}}`, space.CodeInvalid, "lifetime.minutes"),
		create("much metadata", map[string]any{"template": "mini", "metadata": metadata(33, 4, 4)}, space.CodeInvalid, "metadata"),
		create("long name", map[string]any{"template": "mini", "metadata": metadata(1, 65, 4)}, space.CodeInvalid, "metadata"),
		create("long value", map[string]any{"template": "mini", "metadata": map[string]string{"k": strings.Repeat("v", 1025)}}, space.CodeInvalid, "metadata.k"),
		create("NUL value", `{"template":"mini","metadata":{"k":"\u0000"}}`, space.CodeInvalid, "metadata.k"),
	}
}

// variables makes n entries of an environment.
func variables(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("E%d", i)] = ""
	}
	return out
}

// metadata makes n entries with names and values of that many characters.
func metadata(n, name, value int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("%0*d", name, i)] = strings.Repeat("ü", value)
	}
	return out
}

func sessionExchanges(box string) []exchange {
	create := func(name string, body any, field string) exchange {
		return exchange{name: "session: " + name, method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: body, code: space.CodeInvalid, field: field}
	}
	return []exchange{
		create("neither", `{}`, "argv"),
		create("both", `{"argv":["a"],"shell":"a"}`, "shell"),
		create("empty argv", `{"argv":[]}`, "argv"),
		create("empty program", `{"argv":["","x"]}`, "argv"),
		create("many arguments", map[string]any{"argv": make([]string, 4097)}, "argv"),
		create("long arguments", map[string]any{"argv": []string{"a", strings.Repeat("b", 70_000), strings.Repeat("c", 70_000)}}, "argv"),
		create("NUL argument", `{"argv":["a\u0000b"]}`, "argv"),
		create("empty shell", `{"shell":""}`, "shell"),
		create("long shell", map[string]any{"shell": strings.Repeat("a", 128<<10)}, "shell"),
		create("relative cwd", `{"shell":"a","cwd":"tmp"}`, "cwd"),
		create("long cwd", map[string]any{"shell": "a", "cwd": "/" + strings.Repeat("a", 4096)}, "cwd"),
		create("bad name", `{"shell":"a","env":{"1A":"x"}}`, "env"),
		create("name with an equals sign", `{"shell":"a","env":{"A=B":"x"}}`, "env"),
		create("NUL variable", `{"shell":"a","env":{"A":"\u0000"}}`, "env.A"),
		create("many variables", map[string]any{"shell": "a", "env": variables(257)}, "env"),
		create("large environment", map[string]any{"shell": "a", "env": map[string]string{"A": strings.Repeat("a", 70_000), "B": strings.Repeat("b", 70_000)}}, "env"),
		create("bad user", `{"shell":"a","user":"a:b:c"}`, "user"),
		create("long user", map[string]any{"shell": "a", "user": strings.Repeat("a", 65)}, "user"),
		create("stdin not base64", `{"shell":"a","stdin":"***"}`, "stdin"),
		create("no rows", `{"shell":"a","tty":{"rows":0,"cols":80}}`, "tty.rows"),
		create("many columns", `{"shell":"a","tty":{"rows":24,"cols":1001}}`, "tty.cols"),
		create("half a terminal", `{"shell":"a","tty":{"rows":24}}`, "tty.cols"),
		create("terminal with an unknown field", `{"shell":"a","tty":{"rows":24,"cols":80,"term":"x"}}`, "tty.term"),
		create("no timeout", `{"shell":"a","timeout_seconds":0}`, "timeout_seconds"),
		create("long timeout", `{"shell":"a","timeout_seconds":604801}`, "timeout_seconds"),
		create("odd stdin", `{"shell":"a","open_stdin":"yes"}`, "open_stdin"),
		create("much stdin", map[string]any{"shell": "a", "stdin": make([]byte, 1<<20+1)}, "stdin"),
		create("much with the sandbox's", map[string]any{"shell": "a", "env": variables(256)}, "env"),
		{name: "session: too large", method: "POST", path: "/v1/sandboxes/" + box + "/sessions", body: map[string]any{"shell": "a", "stdin": make([]byte, 3<<20)}, code: space.CodeTooLarge},
	}
}

// envBox is a sandbox with an environment of its own.
func envBox(t *testing.T, r *rig) string {
	t.Helper()
	return decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini","env":{"A":"b"}}`).want(t, 201)).Sandbox.Id
}

// lifecycleExchanges are refused by what a sandbox is, or by what is asked of it.
func lifecycleExchanges(box, deleted string) []exchange {
	refuse := func(name, method, path string, body any, code space.Code, field string) exchange {
		return exchange{name: "lifecycle: " + name, method: method, path: "/v1/sandboxes/" + path, body: body, code: code, field: field}
	}
	return []exchange{
		refuse("update null", "PATCH", box, `{"lifetime":null}`, space.CodeInvalid, "lifetime"),
		refuse("update what can't be", "PATCH", box, `{"vcpus":2}`, space.CodeInvalid, "vcpus"),
		refuse("update with much metadata", "PATCH", box, map[string]any{"metadata": metadata(33, 4, 4)}, space.CodeInvalid, "metadata"),
		refuse("update with a bad environment", "PATCH", box, `{"env":{"A=B":"x"}}`, space.CodeInvalid, "env"),
		refuse("update with a past deadline", "PATCH", box, `{"lifetime":{"deadline":"1999-01-01T00:00:00Z","on_expiry":"delete"}}`, space.CodeInvalid, "lifetime.deadline"),
		refuse("update nothing for a time", "PATCH", box, `{"lifetime":{"seconds":1,"on_expiry":"none"}}`, space.CodeInvalid, "lifetime.on_expiry"),
		refuse("update a deleted one", "PATCH", deleted, `{}`, space.CodeConflict, ""),
		refuse("update without a body", "PATCH", box, nil, space.CodeInvalid, ""),
		refuse("stop a deleted one", "POST", deleted+"/stop", nil, space.CodeConflict, ""),
		refuse("start a deleted one", "POST", deleted+"/start", nil, space.CodeConflict, ""),
		refuse("stop with a bad wait", "POST", box+"/stop?wait=1", nil, space.CodeInvalid, "wait"),
		refuse("no figures yet", "GET", box+"/metrics", nil, space.CodeUnavailable, ""),
		refuse("no figures any more", "GET", deleted+"/metrics", nil, space.CodeConflict, ""),
		refuse("token of a deleted one", "POST", deleted+"/tokens", nil, space.CodeConflict, ""),
		refuse("token with a long name", "POST", box+"/tokens", map[string]any{"name": strings.Repeat("ü", 65)}, space.CodeInvalid, "name"),
		refuse("token with a NUL", "POST", box+"/tokens", `{"name":"\u0000"}`, space.CodeInvalid, "name"),
		refuse("token of no life", "POST", box+"/tokens", `{"expires_in_seconds":0}`, space.CodeInvalid, "expires_in_seconds"),
		refuse("token of a long life", "POST", box+"/tokens", `{"expires_in_seconds":31536001}`, space.CodeInvalid, "expires_in_seconds"),
		refuse("token with an unknown field", "POST", box+"/tokens", `{"role":"root"}`, space.CodeInvalid, "role"),
		refuse("revoke what isn't there", "DELETE", box+"/tokens/"+space.NewID(space.PrefixToken), nil, space.CodeNotFound, ""),
		refuse("revoke nonsense", "DELETE", box+"/tokens/%00", nil, space.CodeNotFound, ""),
		refuse("URL of nothing", "POST", box+"/file-urls", `{"operation":"read"}`, space.CodeInvalid, "path"),
		refuse("URL of a relative path", "POST", box+"/file-urls", `{"path":"a","operation":"read"}`, space.CodeInvalid, "path"),
		refuse("URL of a long path", "POST", box+"/file-urls", map[string]any{"path": "/" + strings.Repeat("a", 4095), "operation": "read"}, space.CodeInvalid, "path"),
		refuse("URL of a NUL", "POST", box+"/file-urls", `{"path":"/\u0000","operation":"read"}`, space.CodeInvalid, "path"),
		refuse("URL for nothing", "POST", box+"/file-urls", `{"path":"/a"}`, space.CodeInvalid, "operation"),
		refuse("URL for something else", "POST", box+"/file-urls", `{"path":"/a","operation":"delete"}`, space.CodeInvalid, "operation"),
		refuse("URL for nobody", "POST", box+"/file-urls", `{"path":"/a","operation":"read","user":"a b"}`, space.CodeInvalid, "user"),
		refuse("URL for a long time", "POST", box+"/file-urls", `{"path":"/a","operation":"read","expires_in_seconds":604801}`, space.CodeInvalid, "expires_in_seconds"),
		refuse("URL of a deleted one", "POST", deleted+"/file-urls", `{"path":"/a","operation":"read"}`, space.CodeConflict, ""),
		refuse("sessions of another table", "GET", box+"/sessions?cursor="+cursor("1."+space.NewID(space.PrefixSandbox)), nil, space.CodeInvalid, "cursor"),
	}
}

// missingExchanges ask for what isn't there, in ways that must not reach the database as they are.
func missingExchanges(box string) []exchange {
	var out []exchange
	for _, id := range []string{"x", "sbx_", "sbx_" + strings.Repeat("a", 26), "op_" + strings.Repeat("a", 26), "%00", "%ff", "a%2Fb", strings.Repeat("a", 500), "%27%3B--"} {
		for _, x := range []exchange{
			{method: "GET", path: "/v1/sandboxes/" + id},
			{method: "DELETE", path: "/v1/sandboxes/" + id},
			{method: "POST", path: "/v1/sandboxes/" + id + "/sessions", body: `{"shell":"a"}`},
			{method: "GET", path: "/v1/sandboxes/" + id + "/sessions"},
			{method: "PATCH", path: "/v1/sandboxes/" + id, body: `{}`},
			{method: "POST", path: "/v1/sandboxes/" + id + "/stop"},
			{method: "POST", path: "/v1/sandboxes/" + id + "/start"},
			{method: "GET", path: "/v1/sandboxes/" + id + "/tokens"},
			{method: "POST", path: "/v1/sandboxes/" + id + "/tokens"},
			{method: "DELETE", path: "/v1/sandboxes/" + box + "/tokens/" + id},
			{method: "POST", path: "/v1/sandboxes/" + id + "/file-urls", body: `{"path":"/a","operation":"read"}`},
			{method: "DELETE", path: "/v1/sandboxes/" + id + "/file-urls"},
			{method: "GET", path: "/v1/sandboxes/" + id + "/metrics"},
			{method: "GET", path: "/v1/sandboxes/" + box + "/sessions/" + id},
			{method: "GET", path: "/v1/sandboxes/" + id + "/sessions/" + id},
			{method: "POST", path: "/v1/sandboxes/" + box + "/sessions/" + id + "/attachments"},
			{method: "GET", path: "/v1/operations/" + id},
			{method: "GET", path: "/v1/templates/" + id},
			{method: "DELETE", path: "/v1/templates/" + id},
			{method: "GET", path: "/v1/templates/" + id + "/logs"},
			{method: "DELETE", path: "/v1/uploads/" + id},
			{method: "PUT", path: "/v1/templates/" + id + "/tags/v1"},
			{method: "DELETE", path: "/v1/templates/" + id + "/aliases/www"},
		} {
			x.name, x.code = "missing: "+x.method+" "+x.path, space.CodeNotFound
			out = append(out, x)
		}
	}
	return out
}

func TestUnauthenticatedSaysHow(t *testing.T) {
	r := newRig(t)
	a := r.do(t, http.MethodGet, "/v1/node", nil, "Authorization", "")
	if a.code(t, space.CodeUnauthenticated); a.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("headers: %v", a.header)
	}
	if a := r.do(t, "PUT", "/v1/sandboxes", nil); a.header.Get("Allow") != "GET, POST" {
		t.Errorf("headers: %v", a.header)
	}
}
