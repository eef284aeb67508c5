package postgres_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/templates"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

// TestTemplatesOfTheFirstSchema brings a database up to date that has a template of each recipe: building a recipe answers with it.
func TestTemplatesOfTheFirstSchema(t *testing.T) {
	pool, err := postgres.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	conns := stdlib.OpenDBFromPool(pool)
	defer conns.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, conns, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	base, mini := space.NewID(space.PrefixTemplate), space.NewID(space.PrefixTemplate)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO orgs (id, name) VALUES ('org_1', 'o');
		INSERT INTO projects (id, org, name) VALUES ('prj_1', 'org_1', 'p');
		INSERT INTO templates (id, project, name, recipe, node, vcpus, memory_bytes, disk_bytes) VALUES
			('`+base+`', 'prj_1', 'base', 'base', 'n', 1, 512 << 20, 4096::bigint << 20), ('`+mini+`', 'prj_1', 'mini', 'mini', 'n', 1, 128 << 20, 64 << 20);
		INSERT INTO template_status (template, state, vcpus, memory_bytes, disk_bytes, digest, progress) VALUES
			('`+base+`', 'ready', 1, 512 << 20, 4096::bigint << 20, 'sha256:1', ''), ('`+mini+`', 'building', 0, 0, 0, '', 'half');
		INSERT INTO operations (id, project, kind, status, template, ended_at) VALUES
			('op_base', 'prj_1', 'build_template', 'succeeded', '`+base+`', now()), ('op_mini', 'prj_1', 'build_template', 'running', '`+mini+`', NULL)`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store := postgres.New(pool).Sealing(envelope.Random())
	tpls := templates.New(store, new(wake.Bell), "n")
	for recipe, want := range map[string]string{"base": "op_base", "mini": "op_mini"} {
		if got := must(t)(tpls.Build(t.Context(), "prj_1", templates.Create{Recipe: &recipe}, record.Request{})); got != want {
			t.Errorf("building %s answers with %s", recipe, got)
		}
	}
	if got, err := tpls.Get(t.Context(), "prj_1", "base"); err != nil || got.ID != base || got.State != record.TemplateReady || !got.Named || got.Source != "recipe base" {
		t.Errorf("%+v, %v", got, err)
	}
	if b, err := store.BuildOrder(t.Context(), mini); err != nil || b.Build.Source.Recipe != "mini" || b.Shape.DiskMiB() != 64 {
		t.Errorf("%+v, %v", b, err)
	}
	w, err := store.Wanted(t.Context(), "n")
	if err != nil || len(w.Templates) != 2 || w.Templates[0].Recorded.Digest != "" {
		t.Errorf("what the node says of them isn't written anew: %+v, %v", w.Templates, err)
	}
}
