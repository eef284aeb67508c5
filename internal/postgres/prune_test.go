package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// TestPrune ages some records over their time and leaves others: only the former go, with all that belongs to them.
func TestPrune(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	old, young := s.newSandbox(), s.newSandbox()
	for _, n := range []*record.NewSandbox{&old, &young} {
		n.Request = record.Request{Key: n.Operation}
		must(t)(s.store.CreateSandbox(t.Context(), *n, roomy))
		session := s.newSession()
		session.Sandbox = n.Route.Sandbox
		s.createSession(t, session)
		must(t)(s.verbs.Delete(t.Context(), s.project, n.Route.Sandbox))
		s.observe(t, n.Route, space.ExecutionGone)
	}
	failed := s.newTemplate("base")
	must(t)(s.store.BuildTemplate(t.Context(), failed))
	s.observeTemplate(t, failed.ID, record.TemplateStatus{State: record.TemplateFailed, Error: space.Errorf(space.CodeInternal, "no")})
	must(t)(s.store.BuildTemplate(t.Context(), s.newTemplate("base")))

	if n, err := s.store.Prune(t.Context()); err != nil || n != 0 {
		t.Fatalf("pruned %d young records, %v", n, err)
	}
	for _, statement := range []string{
		`UPDATE sandboxes SET deleted_at = deleted_at - interval '25 hours' WHERE id = '` + old.Route.Sandbox + `'`,
		`UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' WHERE key = '` + old.Operation + `'`,
		`UPDATE attachments SET expires_at = expires_at - interval '26 hours' WHERE session = '` + s.session.ID + `'`,
		`UPDATE templates SET superseded_at = superseded_at - interval '25 hours'`,
	} {
		if _, err := s.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.store.Prune(t.Context()); err != nil || n != 4 {
		t.Errorf("pruned %d records, %v, want 4", n, err)
	}
	got := map[string]int{}
	for _, table := range []string{"sandboxes", "executions", "sessions", "attachments", "operations", "templates", "idempotency_keys"} {
		got[table] = s.count(t, "SELECT count(*) FROM "+table)
	}
	want := map[string]int{"sandboxes": 2, "executions": 2, "sessions": 2, "attachments": 1, "operations": 5, "templates": 2, "idempotency_keys": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFailedTemplatesGo has a build that failed a week ago, one that failed yesterday, and an old one that was ready once.
func TestFailedTemplatesGo(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	fail := func(name string) string {
		n := s.newTemplate(name)
		must(t)(s.store.BuildTemplate(t.Context(), n))
		s.failed(t, n.ID)
		return n.ID
	}
	old, young, once := fail("old"), fail("young"), fail("once")
	for _, statement := range []string{
		`UPDATE template_status SET observed_at = now() - interval '8 days' WHERE template IN ('` + old + `', '` + once + `')`,
		`UPDATE template_status SET observed_at = now() - interval '6 days' WHERE template = '` + young + `'`,
		`UPDATE template_status SET ready_at = now() - interval '9 days' WHERE template = '` + once + `'`,
	} {
		if _, err := s.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.store.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
	for id, there := range map[string]bool{old: false, young: true, once: true} {
		_, err := s.store.Template(t.Context(), s.project, record.TemplateRef{ID: id})
		if (err == nil) != there || err != nil && space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := s.store.Template(t.Context(), s.project, record.TemplateRef{Name: "old"}); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("its name: %v", err)
	}
	s.audit(t)
}
