package api_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

func TestSameKeySameSandbox(t *testing.T) {
	r := newRig(t)
	r.template(t)
	var ids [8]string
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			a := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini","metadata":{"a":"1","b":"2"}}`, "Idempotency-Key", "one")
			ids[i] = decode[gen.Operation](t, a).Id
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("operations of one request made at once: %v", ids)
		}
	}
	late := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"metadata":{"b":"2","a":"1"},"template":"mini"}`, "Idempotency-Key", "one").want(t, 201))
	if late.Id != ids[0] || late.Status != gen.OperationStatusSucceeded {
		t.Errorf("the same request in another order: %+v", late)
	}
	if page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil)); len(page.Items) != 1 {
		t.Errorf("%d sandboxes", len(page.Items))
	}
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "one").code(t, space.CodeIdempotencyMismatch)
	r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`, "Idempotency-Key", "one").code(t, space.CodeIdempotencyMismatch)
	r.sql(t, "UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'")
	if again := r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "one").accepted(t); again.Id == ids[0] {
		t.Error("a key was remembered for more than a day")
	}
}

// TestRefusedRequestLeavesItsKey has a request that failed and may be sent again with the same key.
func TestRefusedRequestLeavesItsKey(t *testing.T) {
	r := newRig(t)
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "k").code(t, space.CodeNotFound)
	r.template(t)
	r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`, "Idempotency-Key", "k").accepted(t)
}

func TestSameKeySameSession(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id + "/sessions"
	var made [4]gen.SessionCreated
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			made[i] = decode[gen.SessionCreated](t, r.do(t, "POST", path, `{"shell":"date"}`, "Idempotency-Key", "s"))
		})
	}
	wg.Wait()
	for _, m := range made {
		if m.Attachment.Token == "" || !cmp.Equal(m, made[0]) {
			t.Errorf("one request made at once: %s", cmp.Diff(made[0], m))
		}
	}
	r.do(t, "POST", path, `{"shell":"time"}`, "Idempotency-Key", "s").code(t, space.CodeIdempotencyMismatch)
	other := decode[gen.SessionCreated](t, r.do(t, "POST", path, `{"shell":"date"}`, "Idempotency-Key", "t").want(t, 201))
	if other.Session.Id == made[0].Session.Id || other.Attachment.Token == made[0].Attachment.Token {
		t.Error("another key made the same session")
	}
	// Another API key of the project repeats the request: the same session, with a token that works.
	r.key = r.bootstrap(t)
	second := decode[gen.SessionCreated](t, r.do(t, "POST", path, `{"shell":"date"}`, "Idempotency-Key", "s").want(t, 201))
	if second.Session.Id != made[0].Session.Id {
		t.Errorf("session %s, want %s", second.Session.Id, made[0].Session.Id)
	}
	if _, err := r.sessions.Resolve(t.Context(), second.Attachment.Token, second.Session.Id); err != nil {
		t.Error(err)
	}
}

// TestEveryCreateIsRepeatable repeats those whose answers are made of little: at once, with another body, without a key, and with another API key.
func TestEveryCreateIsRepeatable(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	session := decode[gen.SessionCreated](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"date"}`).want(t, 201)).Session
	owner, other := r.key, r.bootstrap(t)
	for name, c := range map[string]struct {
		path, body, another string
		stranger            space.Code // of another API key that repeats it; empty: it gets what is its own
	}{
		"upload":     {"/v1/uploads", `{}`, `{"sha256":"` + strings.Repeat("0a", 32) + `"}`, space.CodeConflict},
		"file URL":   {"/v1/sandboxes/" + box.Id + "/file-urls", `{"path":"/a","operation":"read"}`, `{"path":"/a","operation":"write"}`, ""},
		"attachment": {"/v1/sandboxes/" + box.Id + "/sessions/" + session.Id + "/attachments", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.key = owner
			make := func(body string, header ...string) reply { return r.do(t, "POST", c.path, body, header...) }
			var made [4]string
			var wg sync.WaitGroup
			for i := range made {
				wg.Go(func() { made[i] = string(make(c.body, "Idempotency-Key", name[:4]).want(t, 201).body) })
			}
			wg.Wait()
			for _, m := range made {
				if m != made[0] {
					t.Errorf("one request made %s and %s", made[0], m)
				}
			}
			if again := string(make(c.body, "Idempotency-Key", name[:4]).want(t, 201).body); again != made[0] {
				t.Errorf("repeated: %s, first %s", again, made[0])
			}
			if c.another != "" {
				make(c.another, "Idempotency-Key", name[:4]).code(t, space.CodeIdempotencyMismatch)
			}
			if name != "file URL" { // one that is signed in the same second is the same
				for _, body := range []string{string(make(c.body).want(t, 201).body), string(make(c.body, "Idempotency-Key", name[:4]+"2").want(t, 201).body)} {
					if body == made[0] {
						t.Errorf("another request got the same: %s", body)
					}
				}
			}
			r.key = other
			if c.stranger != "" {
				make(c.body, "Idempotency-Key", name[:4]).code(t, c.stranger)
				return
			}
			make(c.body, "Idempotency-Key", name[:4]).want(t, 201)
		})
	}
}

// TestEveryCreateTakesAnIdempotencyKey reads the contract: a create without one says why.
func TestEveryCreateTakesAnIdempotencyKey(t *testing.T) {
	without := map[string]bool{"createKey": true} // it can't be shown again
	for path, item := range loadContract(t).Paths.Map() {
		op := item.Post
		if op == nil || !strings.HasPrefix(op.OperationID, "create") {
			continue
		}
		takes := false
		for _, p := range op.Parameters {
			takes = takes || p.Value.Name == space.IdempotencyKey
		}
		if takes == without[op.OperationID] {
			t.Errorf("%s (POST %s): takes an Idempotency-Key: %v", op.OperationID, path, takes)
		}
	}
}

func TestSameKeySameTemplate(t *testing.T) {
	r := newRig(t)
	r.template(t)
	first := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`, "Idempotency-Key", "t").want(t, 201))
	again := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`, "Idempotency-Key", "t").want(t, 201))
	if !cmp.Equal(first, again) {
		t.Error(cmp.Diff(first, again))
	}
}
