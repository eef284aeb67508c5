package api_test

import (
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

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
