package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// TestForeignIsMissing asks for another project's things: the answer is the one for what doesn't exist.
func TestForeignIsMissing(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	session := r.session(t, box.Id).Session.Id
	operation := decode[gen.Operation](t, r.do(t, "DELETE", "/v1/sandboxes/"+r.sandbox(t).Id, nil)).Id
	tpl := r.template(t).Id
	owner := r.key
	r.key = r.stranger(t)
	missing := map[space.Prefix]string{}
	for _, p := range []space.Prefix{space.PrefixSandbox, space.PrefixSession, space.PrefixOperation, space.PrefixTemplate} {
		missing[p] = space.NewID(p)
	}
	for _, x := range []struct{ method, theirs, nobodys, body string }{
		{"GET", "/v1/sandboxes/" + box.Id, "/v1/sandboxes/" + missing[space.PrefixSandbox], ""},
		{"DELETE", "/v1/sandboxes/" + box.Id, "/v1/sandboxes/" + missing[space.PrefixSandbox], ""},
		{"POST", "/v1/sandboxes/" + box.Id + "/sessions", "/v1/sandboxes/" + missing[space.PrefixSandbox] + "/sessions", `{"shell":"id"}`},
		{"GET", "/v1/sandboxes/" + box.Id + "/sessions/" + session, "/v1/sandboxes/" + box.Id + "/sessions/" + missing[space.PrefixSession], ""},
		{"POST", "/v1/sandboxes/" + box.Id + "/sessions/" + session + "/attachments", "/v1/sandboxes/" + box.Id + "/sessions/" + missing[space.PrefixSession] + "/attachments", ""},
		{"GET", "/v1/operations/" + operation, "/v1/operations/" + missing[space.PrefixOperation], ""},
		{"GET", "/v1/operations/" + operation + "?wait=300s", "/v1/operations/" + missing[space.PrefixOperation], ""},
		{"GET", "/v1/templates/" + tpl, "/v1/templates/" + missing[space.PrefixTemplate], ""},
		{"GET", "/v1/templates/mini", "/v1/templates/" + missing[space.PrefixTemplate], ""},
	} {
		theirs, nobodys := r.do(t, x.method, x.theirs, orNil(x.body)), r.do(t, x.method, x.nobodys, orNil(x.body))
		a, b := theirs.code(t, space.CodeNotFound), nobodys.code(t, space.CodeNotFound)
		if diff := cmp.Diff(b, a, cmpopts.IgnoreFields(gen.Problem{}, "RequestId", "Detail")); diff != "" {
			t.Errorf("%s %s: %s", x.method, x.theirs, diff)
		}
	}
	if page := decode[gen.SandboxPage](t, r.do(t, "GET", "/v1/sandboxes", nil).want(t, 200)); len(page.Items) != 0 {
		t.Errorf("a stranger's list: %+v", page)
	}
	r.key = owner
	r.do(t, "GET", "/v1/sandboxes/"+box.Id, nil).want(t, 200)
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// TestForeignIdempotencyKey has two projects that choose the same key.
func TestForeignIdempotencyKey(t *testing.T) {
	r := newRig(t)
	mine := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"mini"}`, "Idempotency-Key", "k"))
	r.key = r.stranger(t)
	theirs := decode[gen.Operation](t, r.do(t, "POST", "/v1/templates", `{"recipe":"base"}`, "Idempotency-Key", "k"))
	if mine.Template.Name != "mini" || theirs.Template.Name != "base" {
		t.Errorf("mine: %+v, theirs: %+v", mine, theirs)
	}
}

func TestRevokedKey(t *testing.T) {
	r := newRig(t)
	r.do(t, "GET", "/v1/node", nil).want(t, 200)
	r.sql(t, "UPDATE api_keys SET revoked_at = now()")
	r.do(t, "GET", "/v1/node", nil).code(t, space.CodeUnauthenticated)
}

// TestSecretsAreNotStored looks for the key and the token in every table.
func TestSecretsAreNotStored(t *testing.T) {
	r := newRig(t)
	token := r.session(t, r.sandbox(t).Id).Attachment.Token
	rows, err := r.pool.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	for _, table := range tables {
		var found bool
		q := "SELECT EXISTS (SELECT 1 FROM " + table + " x WHERE position($1 in x::text) > 0 OR position($2 in x::text) > 0)"
		if err := r.pool.QueryRow(t.Context(), q, r.key[len(r.key)-52:], token[len(token)-52:]).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found {
			t.Errorf("table %s holds a secret", table)
		}
	}
}
