package api_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

func (r *rig) createKey(t *testing.T, body any) gen.KeyCreated {
	t.Helper()
	return decode[gen.KeyCreated](t, r.do(t, "POST", "/v1/keys", body).want(t, 201))
}

// as does something with another key.
func (r *rig) as(key string, do func()) {
	mine := r.key
	r.key = key
	do()
	r.key = mine
}

func TestLifeOfAKey(t *testing.T) {
	r := newRig(t)
	made := r.createKey(t, map[string]any{"name": "ci", "expires_at": time.Now().Add(time.Hour)})
	if made.Key.Role != gen.RoleDeveloper || made.Key.ExpiresAt == nil || !strings.HasPrefix(made.Secret, made.Key.Prefix+"_") {
		t.Errorf("made: %+v", made)
	}
	r.as(made.Secret, func() {
		if me := r.me(t); me.Key.Id != made.Key.Id || me.Role != gen.RoleDeveloper {
			t.Errorf("me: %+v", me)
		}
	})
	list := decode[gen.KeyPage](t, r.do(t, "GET", "/v1/keys", nil).want(t, 200))
	if len(list.Items) != 2 || list.Items[0].Id != made.Key.Id || list.Items[0].LastUsedAt == nil {
		t.Errorf("list: %+v", list)
	}
	if strings.Contains(string(r.do(t, "GET", "/v1/keys", nil).body), made.Secret[len(made.Key.Prefix):]) {
		t.Error("the list shows the secret")
	}
	for range 2 {
		r.do(t, "DELETE", "/v1/keys/"+made.Key.Id, nil).want(t, 204)
	}
	r.do(t, "GET", "/v1/me", nil, "Authorization", "Bearer "+made.Secret).code(t, space.CodeUnauthenticated)
	if list := decode[gen.KeyPage](t, r.do(t, "GET", "/v1/keys", nil)); list.Items[0].RevokedAt == nil {
		t.Errorf("the revoked key: %+v", list.Items[0])
	}
	r.do(t, "DELETE", "/v1/keys/"+r.me(t).Key.Id, nil).code(t, space.CodeConflict)
}

func TestE2BKey(t *testing.T) {
	r := newRig(t)
	made := r.createKey(t, `{"name":"sdk","format":"e2b"}`)
	if !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(made.Secret) {
		t.Fatalf("%q", made.Secret)
	}
	r.as(made.Secret, func() { r.sandbox(t) })
	r.do(t, "GET", "/v1/me", nil, "Authorization", "Bearer "+made.Secret[:43]+"g").code(t, space.CodeUnauthenticated)
}

// TestAdminStaysInTheirProject has an admin of one project look at, make and end keys.
func TestAdminStaysInTheirProject(t *testing.T) {
	r := newRig(t)
	owner := r.me(t).Key.Id
	other := decode[gen.Project](t, r.do(t, "POST", "/v1/projects", `{"name":"other"}`).want(t, 201))
	elsewhere := r.createKey(t, map[string]any{"name": "elsewhere", "project": other.Id})
	admin := r.createKey(t, `{"name":"admin","role":"admin"}`)
	r.as(admin.Secret, func() {
		for _, k := range decode[gen.KeyPage](t, r.do(t, "GET", "/v1/keys", nil).want(t, 200)).Items {
			if k.Id == elsewhere.Key.Id {
				t.Error("an admin sees another project's key")
			}
		}
		if list := decode[gen.ProjectPage](t, r.do(t, "GET", "/v1/projects", nil).want(t, 200)); len(list.Items) != 1 || list.Items[0].Name != "default" {
			t.Errorf("an admin sees %+v", list)
		}
		r.do(t, "GET", "/v1/projects/"+other.Id, nil).code(t, space.CodeNotFound)
		r.do(t, "POST", "/v1/keys", `{"name":"k","role":"owner"}`).code(t, space.CodeForbidden)
		r.do(t, "POST", "/v1/keys", map[string]any{"name": "k", "project": other.Id}).code(t, space.CodeForbidden)
		r.do(t, "DELETE", "/v1/keys/"+elsewhere.Key.Id, nil).code(t, space.CodeNotFound)
		r.do(t, "DELETE", "/v1/keys/"+owner, nil).code(t, space.CodeForbidden)
		r.do(t, "PATCH", "/v1/projects/"+r.me(t).Project.Id, `{"quota":{}}`).code(t, space.CodeForbidden)
		r.createKey(t, `{"name":"k","role":"admin"}`)
		r.do(t, "DELETE", "/v1/keys/"+admin.Key.Id, nil).want(t, 204)
	})
	r.do(t, "DELETE", "/v1/keys/"+elsewhere.Key.Id, nil).want(t, 204)
}

// TestKeyPages lists keys a page at a time.
func TestKeyPages(t *testing.T) {
	r := newRig(t)
	for range 4 {
		r.createKey(t, `{"name":"k"}`)
	}
	seen := map[string]bool{}
	path := "/v1/keys?limit=2"
	for range 3 {
		page := decode[gen.KeyPage](t, r.do(t, "GET", path, nil).want(t, 200))
		for _, k := range page.Items {
			seen[k.Id] = true
		}
		if page.NextCursor == nil {
			break
		}
		path = "/v1/keys?limit=2&cursor=" + *page.NextCursor
	}
	if len(seen) != 5 {
		t.Errorf("%d keys", len(seen))
	}
}
