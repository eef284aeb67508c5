package postgres_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

// dump is everything in the database, as text.
func (s *scene) dump(t *testing.T) string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, table := range tables {
		rows, err := s.pool.Query(t.Context(), "SELECT encode(convert_to(x::text, 'UTF8'), 'escape') FROM "+pgx.Identifier{table}.Sanitize()+" x")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			fmt.Fprintln(&out, table, l)
		}
	}
	return out.String()
}

// TestBuildsAreSealed has secrets in a template's commands and environments: nothing of them is in a dump, as text or in hexadecimal, and
// nothing opens with another key.
func TestBuildsAreSealed(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	n := s.version("web", "a")
	n.Build = record.Build{
		Source: record.Source{Image: "web:1"}, Steps: []record.Step{{Run: "canary-run"}, {Set: &record.Defaults{Env: map[string]string{"A": "canary-step"}}}},
		StartCommand: "canary-start", Defaults: record.Defaults{Env: map[string]string{"B": "canary-env"}},
	}
	must(t)(s.store.BuildTemplate(t.Context(), n))
	defaults := record.Defaults{Env: map[string]string{"A": "canary-step", "B": "canary-env"}, User: "app", Workdir: "/srv"}
	if _, err := s.store.Observe(t.Context(), record.Seen{Templates: []record.TemplateSeen{{
		ID: n.ID, Status: record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:1"}, Defaults: defaults,
	}}}); err != nil {
		t.Fatal(err)
	}
	dump := s.dump(t)
	if !strings.Contains(dump, n.ID) {
		t.Fatal("the dump lacks the template")
	}
	for _, canary := range []string{"canary", fmt.Sprintf("%x", "canary")} {
		if at := strings.Index(dump, canary); at >= 0 {
			t.Errorf("a dump has a secret: %.80s", dump[at:])
		}
	}
	if got, err := s.store.BuildOrder(t.Context(), n.ID); err != nil || !cmp.Equal(got.Build, n.Build) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.store.Template(t.Context(), s.project, record.TemplateRef{ID: n.ID}); err != nil || !cmp.Equal(got.Defaults, defaults) {
		t.Errorf("%+v, %v", got.Defaults, err)
	}
	for name, store := range map[string]*postgres.Store{"another key": postgres.New(s.pool).Sealing(envelope.Random()), "no key": postgres.New(s.pool)} {
		if _, err := store.BuildOrder(t.Context(), n.ID); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s opens a build: %v", name, err)
		}
		if _, err := store.Template(t.Context(), s.project, record.TemplateRef{ID: n.ID}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s opens an environment: %v", name, err)
		}
		if _, _, err := store.DeleteTemplate(t.Context(), s.project, n.ID); err != nil {
			t.Errorf("%s can't delete: %v", name, err)
		}
	}
}

// TestRegistryAuthIsDeletedWithTheBuild seals a login while its template is built, and finds nothing of it afterwards, however the build ended.
func TestRegistryAuthIsDeletedWithTheBuild(t *testing.T) {
	pool := pgtest.Pool(t)
	s := newScene(t, pool)
	stored := func(id string) (sealed []byte) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT registry_auth_sealed FROM templates WHERE id = $1", id).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	for name, end := range map[string]func(id string){
		"ready":  func(id string) { s.ready(t, id) },
		"failed": func(id string) { s.failed(t, id) },
		"deleted": func(id string) {
			if _, _, err := s.store.DeleteTemplate(t.Context(), s.project, id); err != nil {
				t.Fatal(err)
			}
		},
	} {
		n := s.newTemplate(name)
		n.Auth = &record.RegistryAuth{Username: "robot", Password: "canary"}
		must(t)(s.store.BuildTemplate(t.Context(), n))
		if got := stored(n.ID); got == nil || bytes.Contains(got, []byte("canary")) || bytes.Contains(got, []byte("robot")) {
			t.Errorf("%s: stored is %q", name, got)
		}
		if got, err := s.store.BuildOrder(t.Context(), n.ID); err != nil || *got.Auth != *n.Auth {
			t.Errorf("%s: the order has %v, %v", name, got.Auth, err)
		}
		end(n.ID)
		if got := stored(n.ID); got != nil {
			t.Errorf("%s: after the build there is %q", name, got)
		}
	}
}
