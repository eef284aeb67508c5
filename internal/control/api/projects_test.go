package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

func TestLifeOfAProject(t *testing.T) {
	r := newRig(t)
	create := func(body string) reply { return r.do(t, "POST", "/v1/projects", body, "Idempotency-Key", "p") }
	made := decode[gen.Project](t, create(`{"name":"team","quota":{"sandboxes":2}}`).want(t, 201))
	if again := decode[gen.Project](t, create(`{"name":"team","quota":{"sandboxes":2}}`).want(t, 201)); !cmp.Equal(again, made) {
		t.Error(cmp.Diff(made, again))
	}
	create(`{"name":"team"}`).code(t, space.CodeIdempotencyMismatch)
	if p := r.do(t, "POST", "/v1/projects", `{"name":"team"}`).code(t, space.CodeConflict); *p.Field != "name" {
		t.Errorf("%+v", p)
	}
	changed := decode[gen.Project](t, r.do(t, "PATCH", "/v1/projects/"+made.Id, `{"name":"crew","quota":{"vcpus":4,"memory_mb":2048}}`).want(t, 200))
	if changed.Name != "crew" || changed.Quota.Sandboxes != nil || *changed.Quota.Vcpus != 4 || *changed.Quota.MemoryMb != 2048 {
		t.Errorf("changed: %+v", changed)
	}
	if same := decode[gen.Project](t, r.do(t, "PATCH", "/v1/projects/"+made.Id, `{}`).want(t, 200)); !cmp.Equal(same, changed) {
		t.Error(cmp.Diff(changed, same))
	}
	list := decode[gen.ProjectPage](t, r.do(t, "GET", "/v1/projects", nil).want(t, 200))
	if len(list.Items) != 2 || list.Items[0].Id != made.Id {
		t.Errorf("list: %+v", list)
	}
	key := r.createKey(t, map[string]any{"name": "k", "project": made.Id}).Secret
	r.do(t, "DELETE", "/v1/projects/"+r.me(t).Project.Id, nil).code(t, space.CodeConflict) // that of the key that asks
	r.do(t, "DELETE", "/v1/projects/"+made.Id, nil).want(t, 204)
	r.do(t, "DELETE", "/v1/projects/"+made.Id, nil).code(t, space.CodeNotFound)
	r.do(t, "GET", "/v1/me", nil, "Authorization", "Bearer "+key).code(t, space.CodeUnauthenticated)
}

// TestQuotaIsHeld fills a project up, and finds room again as soon as a delete is accepted.
func TestQuotaIsHeld(t *testing.T) {
	r := newRig(t)
	project := "/v1/projects/" + r.me(t).Project.Id
	box := r.sandbox(t)
	r.do(t, "PATCH", project, `{"quota":{"sandboxes":1,"memory_mb":1000}}`).want(t, 200)
	p := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "q").code(t, space.CodeQuotaExceeded)
	if *p.Field != "sandboxes" || !strings.Contains(*p.Detail, "1 sandboxes") || !strings.Contains(*p.Detail, "1 are used") {
		t.Errorf("%+v", p)
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id, nil)
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "q").accepted(t)
	r.do(t, "PATCH", project, `{"quota":{"memory_mb":200}}`).want(t, 200)
	if p := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).code(t, space.CodeQuotaExceeded); *p.Field != "memory_mb" {
		t.Errorf("%+v", p)
	}
	used := decode[gen.Project](t, r.do(t, "GET", project, nil).want(t, 200)).Used
	if used.Sandboxes != 1 || used.MemoryMb != 128 {
		t.Errorf("used: %+v", used)
	}
}

func TestUsers(t *testing.T) {
	r := newRig(t)
	user := decode[gen.User](t, r.do(t, "POST", "/v1/users", `{"name":"ada@example.org","role":"admin"}`, "Idempotency-Key", "u").want(t, 201))
	if again := decode[gen.User](t, r.do(t, "POST", "/v1/users", `{"role":"admin","name":"ada@example.org"}`, "Idempotency-Key", "u").want(t, 201)); again != user {
		t.Errorf("%+v, %+v", user, again)
	}
	r.do(t, "POST", "/v1/users", `{"name":"ada@example.org","role":"viewer"}`).code(t, space.CodeConflict)
	key := r.createKey(t, map[string]any{"name": "ada's", "user": user.Id, "role": "admin"})
	r.as(key.Secret, func() {
		r.do(t, "GET", "/v1/users", nil).want(t, 200)
		r.do(t, "POST", "/v1/users", `{"name":"bob","role":"viewer"}`).code(t, space.CodeForbidden)
		if made := r.createKey(t, `{"name":"hers too"}`); made.Key.User == nil || *made.Key.User != user.Id {
			t.Errorf("a user's key made %+v", made.Key)
		}
	})
	if got := decode[gen.User](t, r.do(t, "PATCH", "/v1/users/"+user.Id, `{"role":"viewer"}`).want(t, 200)); got.Role != gen.RoleViewer {
		t.Errorf("%+v", got)
	}
	r.as(key.Secret, func() {
		if me := r.me(t); me.Role != gen.RoleViewer || me.Key.Role != gen.RoleAdmin {
			t.Errorf("demoted: %+v", me)
		}
		r.do(t, "GET", "/v1/users", nil).code(t, space.CodeForbidden)
	})
	r.do(t, "POST", "/v1/keys", map[string]any{"name": "k", "user": user.Id, "role": "developer"}).code(t, space.CodeForbidden)
	r.do(t, "DELETE", "/v1/users/"+user.Id, nil).want(t, 204)
	r.do(t, "DELETE", "/v1/users/"+user.Id, nil).code(t, space.CodeNotFound)
	r.do(t, "GET", "/v1/me", nil, "Authorization", "Bearer "+key.Secret).code(t, space.CodeUnauthenticated)
	if list := decode[gen.UserPage](t, r.do(t, "GET", "/v1/users", nil).want(t, 200)); len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestNotReadyWithoutANode has a node that hasn't called for a while.
func TestNotReadyWithoutANode(t *testing.T) {
	r := newRig(t)
	r.template(t) // the node has called
	ready := func() reply {
		a := r.do(t, "GET", "/readyz", nil, "Authorization", "")
		newJudge(t).check(t, "GET", "/readyz", a)
		return a
	}
	ready().want(t, 200)
	r.sql(t, "UPDATE nodes SET synchronized_at = now() - interval '5 minutes'")
	ready().code(t, space.CodeUnavailable)
	r.sql(t, "DELETE FROM nodes")
	ready().code(t, space.CodeUnavailable)
}
