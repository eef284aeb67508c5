package api_test

import (
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
)

// TestTenancyConformance holds the operations of tenancy and events, good and bad, against the contract.
func TestTenancyConformance(t *testing.T) {
	r := newRig(t)
	judge := newJudge(t)
	r.sandbox(t)
	have := r.belong(t)
	for _, x := range slicesConcat(goodTenancy(have), badProjects(have), badUsers(have), badKeys(), badEvents(), badFilters(), oddIDs()) {
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

func goodTenancy(have belongings) []exchange {
	return []exchange{
		{name: "ready", method: "GET", path: "/readyz", header: []string{"Authorization", ""}, status: 200},
		{name: "docs", method: "GET", path: "/docs", header: []string{"Authorization", ""}, status: 200},
		{name: "me", method: "GET", path: "/v1/me", status: 200},
		{name: "roles", method: "GET", path: "/v1/roles", status: 200},
		{name: "projects", method: "GET", path: "/v1/projects?limit=1", status: 200},
		{name: "project", method: "GET", path: "/v1/projects/" + have["project"], status: 200},
		{name: "create project", method: "POST", path: "/v1/projects", body: `{"name":"a-1","quota":{"sandboxes":0,"vcpus":1000000,"memory_mb":1000000000,"disk_mb":1}}`, status: 201},
		{name: "update project", method: "PATCH", path: "/v1/projects/" + have["project"], body: `{"quota":{}}`, status: 200},
		{name: "delete project", method: "DELETE", path: "/v1/projects/" + have["project"], status: 204},
		{name: "users", method: "GET", path: "/v1/users", status: 200},
		{name: "create user", method: "POST", path: "/v1/users", body: map[string]string{"name": strings.Repeat("ü", 128), "role": "owner"}, status: 201},
		{name: "update user", method: "PATCH", path: "/v1/users/" + have["user"], body: `{"role":"developer"}`, status: 200},
		{name: "keys", method: "GET", path: "/v1/keys", status: 200},
		{name: "create key", method: "POST", path: "/v1/keys", body: map[string]any{"name": "a key", "role": "viewer", "user": have["user"], "format": "e2b", "expires_at": time.Now().Add(time.Hour)}, status: 201},
		{name: "delete user", method: "DELETE", path: "/v1/users/" + have["user"], status: 204},
		{name: "events", method: "GET", path: "/v1/events", status: 200},
		{name: "events of a sandbox", method: "GET", path: "/v1/events?limit=1&sandbox=" + have["sandbox"], status: 200},
		{name: "filtered", method: "GET", path: "/v1/sandboxes?state=running&state=lost&metadata=a%3Db&metadata=c%3Dd", status: 200},
		{name: "templates", method: "GET", path: "/v1/templates?limit=1", status: 200},
	}
}

func badProjects(have belongings) []exchange {
	create := func(name, body, field string) exchange {
		return exchange{name: "project: " + name, method: "POST", path: "/v1/projects", body: body, code: space.CodeInvalid, field: field}
	}
	return []exchange{
		create("no name", `{}`, "name"),
		create("upper case", `{"name":"Team"}`, "name"),
		create("dash first", `{"name":"-a"}`, "name"),
		create("long name", `{"name":"`+strings.Repeat("a", 64)+`"}`, "name"),
		create("NUL", `{"name":"a\u0000"}`, "name"),
		create("negative quota", `{"name":"b","quota":{"vcpus":-1}}`, "quota.vcpus"),
		create("great quota", `{"name":"b","quota":{"sandboxes":1000001}}`, "quota.sandboxes"),
		create("quota that overflows", `{"name":"b","quota":{"memory_mb":9223372036854775807}}`, "quota.memory_mb"),
		create("greater quota", `{"name":"b","quota":{"disk_mb":1000000001}}`, "quota.disk_mb"),
		create("unknown quota", `{"name":"b","quota":{"cpus":1}}`, "quota.cpus"),
		create("quota null", `{"name":"b","quota":null}`, "quota"),
		create("quota a number", `{"name":"b","quota":1}`, "quota"),
		{name: "project: empty name", method: "PATCH", path: "/v1/projects/" + have["project"], body: `{"name":""}`, code: space.CodeInvalid, field: "name"},
		{name: "project: deleted", method: "PATCH", path: "/v1/projects/" + have["project"], body: `{"name":"b"}`, code: space.CodeNotFound},
		{name: "project: cursor of users", method: "GET", path: "/v1/projects?cursor=" + cursor("1."+have["user"]), code: space.CodeInvalid, field: "cursor"},
	}
}

func badUsers(have belongings) []exchange {
	create := func(name string, body any, field string) exchange {
		return exchange{name: "user: " + name, method: "POST", path: "/v1/users", body: body, code: space.CodeInvalid, field: field}
	}
	return []exchange{
		create("no name", `{"role":"viewer"}`, "name"),
		create("no role", `{"name":"a"}`, "role"),
		create("unknown role", `{"name":"a","role":"root"}`, "role"),
		create("long name", map[string]string{"name": strings.Repeat("a", 129), "role": "viewer"}, "name"),
		create("a line break", `{"name":"a\nb","role":"viewer"}`, "name"),
		create("invisible", `{"name":"a\u202eb","role":"viewer"}`, "name"),
		create("a blank behind", `{"name":"a ","role":"viewer"}`, "name"),
		{name: "user: gone", method: "PATCH", path: "/v1/users/" + have["user"], body: `{"role":"viewer"}`, code: space.CodeNotFound},
		{name: "user: limit", method: "GET", path: "/v1/users?limit=101", code: space.CodeInvalid, field: "limit"},
	}
}

func badKeys() []exchange {
	create := func(name string, body any, field string) exchange {
		return exchange{name: "key: " + name, method: "POST", path: "/v1/keys", body: body, code: space.CodeInvalid, field: field}
	}
	return []exchange{
		create("no name", `{}`, "name"),
		create("long name", map[string]string{"name": strings.Repeat("a", 65)}, "name"),
		create("unknown role", `{"name":"a","role":"root"}`, "role"),
		create("unknown format", `{"name":"a","format":"jwt"}`, "format"),
		create("expired", `{"name":"a","expires_at":"2020-01-01T00:00:00Z"}`, "expires_at"),
		create("far away", `{"name":"a","expires_at":"9999-01-01T00:00:00Z"}`, "expires_at"),
		create("not a time", `{"name":"a","expires_at":"tomorrow"}`, "expires_at"),
		create("its secret", `{"name":"a","secret":"x"}`, "secret"),
		{name: "key: no such user", method: "POST", path: "/v1/keys", body: `{"name":"a","user":"x"}`, code: space.CodeNotFound},
		{name: "key: no such project", method: "POST", path: "/v1/keys", body: `{"name":"a","project":"prj_x"}`, code: space.CodeNotFound},
		{name: "key: unknown", method: "DELETE", path: "/v1/keys/key_x", code: space.CodeNotFound},
		{name: "key: too large", method: "POST", path: "/v1/keys", body: `{"name":"` + strings.Repeat("a", 64<<10) + `"}`, code: space.CodeTooLarge},
	}
}

func badEvents() []exchange {
	stream := []string{"Accept", "text/event-stream"}
	return []exchange{
		{name: "events: invented cursor", method: "GET", path: "/v1/events?cursor=abc", code: space.CodeInvalid, field: "cursor"},
		{name: "events: cursor of sandboxes", method: "GET", path: "/v1/events?cursor=" + cursor("1."+space.NewID(space.PrefixSandbox)), code: space.CodeInvalid, field: "cursor"},
		{name: "events: cursor of the future", method: "GET", path: "/v1/events?cursor=" + cursor("e999999999"), code: space.CodeInvalid, field: "cursor"},
		{name: "events: negative cursor", method: "GET", path: "/v1/events?cursor=" + cursor("e-1"), code: space.CodeInvalid, field: "cursor"},
		{name: "events: limit", method: "GET", path: "/v1/events?limit=0", code: space.CodeInvalid, field: "limit"},
		{name: "events: not a sandbox", method: "GET", path: "/v1/events?sandbox=ses_x", code: space.CodeInvalid, field: "sandbox"},
		{name: "events: forged id", method: "GET", path: "/v1/events", header: append([]string{"Last-Event-ID", "999999999"}, stream...), code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "events: huge id", method: "GET", path: "/v1/events", header: append([]string{"Last-Event-ID", "99999999999999999999"}, stream...), code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "events: negative id", method: "GET", path: "/v1/events", header: append([]string{"Last-Event-ID", "-1"}, stream...), code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "events: no number", method: "GET", path: "/v1/events", header: append([]string{"Last-Event-ID", "a"}, stream...), code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "events: a stream that nobody sends", method: "GET", path: "/v1/sandboxes", header: stream, status: 200},
	}
}

func badFilters() []exchange {
	list := func(name, query, field string) exchange {
		return exchange{name: "filter: " + name, method: "GET", path: "/v1/sandboxes?" + query, code: space.CodeInvalid, field: field}
	}
	return []exchange{
		list("unknown state", "state=asleep", "state"),
		list("empty state", "state=", "state"),
		list("many states", strings.Repeat("state=lost&", 16), "state"),
		list("no entry", "metadata=task", "metadata"),
		list("no name", "metadata=%3D7", "metadata"),
		list("a name twice", "metadata=a%3D1&metadata=a%3D2", "metadata"),
		list("many entries", strings.Repeat("metadata=a%3D1&", 9), "metadata"),
		list("long name", "metadata="+strings.Repeat("a", 65)+"%3D1", "metadata"),
		list("long value", "metadata=a%3D"+strings.Repeat("a", 1025), "metadata.a"),
		list("NUL", "metadata=a%3D%00", "metadata.a"),
	}
}

// oddIDs ask for what isn't there, in ways that must not reach the database as they are.
func oddIDs() (out []exchange) {
	for _, id := range []string{"x", "prj_", "prj_" + strings.Repeat("A", 26), "usr_" + strings.Repeat("a", 26), "%00", "%ff", "a%2Fb", strings.Repeat("a", 500), "%27%3B--", "%D0%B0"} {
		for _, x := range []exchange{
			{method: "GET", path: "/v1/projects/" + id},
			{method: "PATCH", path: "/v1/projects/" + id, body: `{}`},
			{method: "DELETE", path: "/v1/projects/" + id},
			{method: "PATCH", path: "/v1/users/" + id, body: `{"role":"viewer"}`},
			{method: "DELETE", path: "/v1/users/" + id},
			{method: "DELETE", path: "/v1/keys/" + id},
		} {
			x.name, x.code = "missing: "+x.method+" "+x.path, space.CodeNotFound
			out = append(out, x)
		}
	}
	return out
}
