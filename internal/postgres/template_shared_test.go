package postgres_test

import (
	"errors"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// TestSharedTemplates has a recipe, and one with a secret, in an organisation's first project: a second project sees the recipe by name, by id and in its
// list, until it has a template of that name itself; another organisation sees nothing.
func TestSharedTemplates(t *testing.T) {
	pool := pgtest.Pool(t)
	s, foreign := newScene(t, pool), newScene(t, pool)
	secret := s.newTemplate("secret")
	secret.Build = record.Build{Source: record.Source{Recipe: "mini"}, Defaults: record.Defaults{Env: map[string]string{"TOKEN": "1"}}}
	must(t)(s.store.BuildTemplate(t.Context(), secret))
	s.ready(t, secret.ID)
	second := must(t)(s.store.CreateProject(t.Context(), record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: "second", By: s.project}))
	sees := func(project string, ref record.TemplateRef, want string) {
		t.Helper()
		got, err := s.store.Template(t.Context(), project, ref)
		if got.ID != want || want == "" && space.CodeOf(err) != space.CodeNotFound || want != "" && err != nil {
			t.Errorf("%s sees %q, %v as %s, want %q", project, got.ID, err, ref, want)
		}
	}
	sees(second, record.TemplateRef{Name: "mini"}, s.tpl.ID)
	sees(second, record.TemplateRef{ID: s.tpl.ID}, s.tpl.ID)
	sees(second, record.TemplateRef{Name: "secret"}, "")
	sees(second, record.TemplateRef{ID: secret.ID}, "")
	sees(foreign.project, record.TemplateRef{ID: s.tpl.ID}, "")
	sees(foreign.project, record.TemplateRef{Name: "mini"}, foreign.tpl.ID)
	if err := errors.Join(s.store.SetTemplateTag(t.Context(), s.project, s.tpl.ID, "own-tag"), s.store.SetTemplateAlias(t.Context(), s.project, s.tpl.ID, "own-alias")); err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]int{s.project: 1, second: 0} { // names are a project's own
		got, err := s.store.Template(t.Context(), project, record.TemplateRef{ID: s.tpl.ID})
		if err != nil || len(got.Tags) != want || len(got.Aliases) != want {
			t.Errorf("%s sees the tags %q and aliases %q, %v, want %d of each", project, got.Tags, got.Aliases, err, want)
		}
	}
	list, err := s.store.Templates(t.Context(), second, record.Position{}, 10)
	if err != nil || len(list) != 1 || list[0].ID != s.tpl.ID || !list[0].Shared || list[0].Project != s.project {
		t.Errorf("the list is %+v, %v", list, err)
	}

	box := s.newSandbox()
	box.Project = second
	must(t)(s.store.CreateSandbox(t.Context(), box, roomy))
	own := s.newTemplate("mini")
	own.Project = second
	must(t)(s.store.BuildTemplate(t.Context(), own))
	sees(second, record.TemplateRef{Name: "mini"}, own.ID)
	sees(s.project, record.TemplateRef{Name: "mini"}, s.tpl.ID)
	if got, err := s.store.Template(t.Context(), s.project, record.TemplateRef{ID: own.ID}); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("a second project's recipe is shared: %+v, %v", got, err)
	}

	must(t)(s.verbs.Delete(t.Context(), s.project, s.box.Route.Sandbox))
	if _, _, err := s.store.DeleteTemplate(t.Context(), second, s.tpl.ID); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("another project deletes it: %v", err)
	}
	derived := s.newTemplate("derived")
	derived.Project, derived.Build.Source = second, record.Source{Template: s.tpl.ID}
	must(t)(s.store.BuildTemplate(t.Context(), derived))
	refused := func(by string) {
		t.Helper()
		if err := s.store.DeleteProject(t.Context(), s.org, s.project); space.CodeOf(err) != space.CodeConflict || !strings.Contains(err.Error(), "used by "+by+" of other projects") {
			t.Errorf("its project is deleted under %s: %v", by, err)
		}
	}
	refused("1 sandbox and 1 template that is being built")
	must(t)(s.verbs.Delete(t.Context(), second, box.Route.Sandbox))
	refused("1 template that is being built")
	s.ready(t, derived.ID) // and needs its base no more
	if err := s.store.DeleteProject(t.Context(), s.org, s.project); err != nil {
		t.Error(err)
	}
	s.audit(t)
}

// TestSharedTemplateIsTakenWhileItsProjectGoes deletes a project while another one is about to commit a sandbox that it makes from its template.
func TestSharedTemplateIsTakenWhileItsProjectGoes(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	second := must(t)(s.store.CreateProject(t.Context(), record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: "second", By: s.project}))
	box := s.newSandbox()
	box.Project = second
	must(t)(s.store.CreateSandbox(t.Context(), box, roomy))
	must(t)(s.verbs.Delete(t.Context(), second, box.Route.Sandbox))
	must(t)(s.verbs.Delete(t.Context(), s.project, s.box.Route.Sandbox))

	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, made := range []string{
		"SELECT FROM templates WHERE id = '" + s.tpl.ID + "' FOR KEY SHARE", "UPDATE sandboxes SET desired = 'running' WHERE id = '" + box.Route.Sandbox + "'",
	} {
		if _, err := tx.Exec(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	}
	deleted := make(chan error, 1)
	go func() { deleted <- s.store.DeleteProject(t.Context(), s.org, s.project) }()
	for waits := false; !waits; {
		if err := s.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-deleted:
			t.Fatalf("it didn't wait: %v", err)
		default:
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; space.CodeOf(err) != space.CodeConflict {
		t.Errorf("the project is deleted under a sandbox: %v", err)
	}
}
