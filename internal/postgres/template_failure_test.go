package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

func init() { maps.Copy(laws, templateLaws) }

var templateLaws = map[string]string{
	"a name means a live version of its own":        `SELECT count(*) FROM template_names n JOIN templates t ON t.id = n.template WHERE t.name <> n.name OR t.project <> n.project OR t.superseded_at IS NOT NULL OR t.deleted_at IS NOT NULL`,
	"a tag means a live version of its name":        `SELECT count(*) FROM template_tags g JOIN templates t ON t.id = g.template WHERE t.name <> g.name OR t.project <> g.project OR t.superseded_at IS NOT NULL OR t.deleted_at IS NOT NULL`,
	"no alias is a template's name":                 `SELECT count(*) FROM template_aliases a JOIN templates t ON t.project = a.project AND t.name = a.alias WHERE t.superseded_at IS NULL AND t.deleted_at IS NULL`,
	"an alias stands for a template's name":         `SELECT count(*) FROM template_aliases a WHERE NOT EXISTS (SELECT 1 FROM templates t WHERE t.project = a.project AND t.name = a.name AND t.superseded_at IS NULL AND t.deleted_at IS NULL)`,
	"a deleted template is not being built":         `SELECT count(*) FROM templates t JOIN operations o ON o.template = t.id WHERE t.deleted_at IS NOT NULL AND o.status = 'running'`,
	"what is wanted by sandboxes isn't deleted":     `SELECT count(*) FROM sandboxes s JOIN templates t ON t.id = s.template WHERE s.desired <> 'deleted' AND t.deleted_at IS NOT NULL`,
	"what is ready once has its time":               `SELECT count(*) FROM template_status WHERE state = 'ready' AND ready_at IS NULL`,
	"no deleted upload is used by a first build":    `SELECT count(*) FROM uploads u JOIN template_uploads x ON x.upload = u.id JOIN templates t ON t.id = x.template LEFT JOIN template_status st ON st.template = t.id WHERE u.deleted_at IS NOT NULL AND t.deleted_at IS NULL AND t.superseded_at IS NULL AND st.ready_at IS NULL AND coalesce(st.state, 'building') = 'building'`,
	"no line is newer than the newest one":          `SELECT count(*) FROM template_log_lines l JOIN template_logs h ON h.template = l.template WHERE l.number > h.before + h.newest`,
	"no line is of a build before the newest build": `SELECT count(*) FROM template_log_lines l JOIN template_logs h ON h.template = l.template WHERE l.number <= h.before`,
}

// templateWrites are the write paths of templates, on one that nothing uses and another that was ready before it.
var templateWrites = []struct {
	name   string
	do     func(ctx context.Context, s *scene, older, spare string) error
	effect string
}{
	{"another version", func(ctx context.Context, s *scene, _, _ string) error {
		n := s.version("spare", "another", "t")
		n.Request = record.Request{Key: "k"}
		_, err := s.store.BuildTemplate(ctx, n)
		return err
	}, `SELECT count(*) FROM templates t JOIN operations o ON o.template = t.id JOIN template_tags g ON g.template = t.id WHERE t.name = 'spare'`},
	{"the same version", func(ctx context.Context, s *scene, _, _ string) error {
		_, err := s.store.BuildTemplate(ctx, s.version("spare", "b", "t"))
		return err
	}, `SELECT count(*) FROM template_tags`},
	{"delete", func(ctx context.Context, s *scene, _, spare string) error {
		_, _, err := s.store.DeleteTemplate(ctx, s.project, spare)
		return err
	}, `SELECT count(*) FROM templates t WHERE t.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM template_names n WHERE n.template = t.id)`},
	{"tag", func(ctx context.Context, s *scene, older, _ string) error {
		return s.store.SetTemplateTag(ctx, s.project, older, "old")
	}, `SELECT count(*) FROM template_tags WHERE tag = 'old'`},
	{"alias", func(ctx context.Context, s *scene, _, spare string) error {
		return s.store.SetTemplateAlias(ctx, s.project, spare, "other")
	}, `SELECT count(*) FROM template_aliases`},
	{"log", func(ctx context.Context, s *scene, _, spare string) error {
		seen, err := s.logSeen(ctx, spare, record.LogLine{Number: 1, At: at(1), Text: "one"})
		if err != nil || seen.Empty() {
			return err
		}
		_, err = s.store.Observe(ctx, seen)
		return err
	}, `SELECT count(*) FROM template_log_lines l JOIN template_logs h ON h.template = l.template WHERE h.newest = 1`},
	{"delete an upload", func(ctx context.Context, s *scene, _, _ string) error {
		_, err := s.store.DeleteUpload(ctx, s.project, s.upload)
		return err
	}, `SELECT count(*) FROM uploads WHERE deleted_at IS NOT NULL`},
	{"see an upload", func(ctx context.Context, s *scene, _, _ string) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: s.name, Uploads: []record.UploadSeen{{ID: s.upload, Bytes: 7}}})
		return err
	}, `SELECT count(*) FROM uploads WHERE bytes = 7`},
}

// logSeen is what the synchronization would write of a line: nothing if it has it.
func (s *scene) logSeen(ctx context.Context, template string, l record.LogLine) (record.Seen, error) {
	w, err := s.store.Wanted(ctx, s.name)
	for _, t := range w.Templates {
		if t.ID == template && t.Log.Newest >= l.Number {
			return record.Seen{}, err
		}
	}
	return record.Seen{Logs: []record.LogSeen{{Template: template, Lines: []record.LogLine{l}}}}, err
}

// TestTemplateFailureTable cuts each write path's connection at the commit, before and after it took effect.
func TestTemplateFailureTable(t *testing.T) {
	pool, fault := pgtest.Faulty(t, pgtest.URL(t))
	for _, w := range templateWrites {
		for _, after := range []bool{false, true} {
			name := w.name + ", without effect"
			if after {
				name = w.name + ", with effect"
			}
			t.Run(name, func(t *testing.T) {
				s := newScene(t, pool)
				older, spare := s.built(t, s.version("spare", "a")), s.built(t, s.version("spare", "b"))
				before, effects := s.count(t, w.effect), 0
				if after {
					effects = 1
					fault.AfterCommit()
				} else {
					fault.BeforeCommit()
				}
				wantCut(t, fault, w.do(t.Context(), s, older, spare))
				wantEffects(t, s, w.effect, before, effects)
				if err := w.do(t.Context(), s, older, spare); err != nil {
					t.Errorf("again: %v", err)
				}
				wantEffects(t, s, w.effect, before, 1)
			})
		}
	}
}

func TestUploads(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ctx := t.Context()
	one := record.NewUpload{ID: space.NewID(space.PrefixUpload), Project: s.project, Node: s.name, SHA256: "", Token: tokenOf("one")}
	if id, err := s.store.CreateUpload(ctx, one); err != nil || id != one.ID {
		t.Fatalf("%s, %v", id, err)
	}
	got, err := s.store.Upload(ctx, one.ID)
	if err != nil || got.Deleted || got.Project != s.project || got.Node != s.name || got.Token != one.Token || got.Expired || time.Until(got.ExpiresAt) < 50*time.Minute || got.DiskQuota != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.store.Upload(ctx, space.NewID(space.PrefixUpload)); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("no such upload: %v", err)
	}
	if n := s.count(t, "SELECT extract(epoch FROM expires_at - created_at)::bigint FROM uploads"); n != 3600 {
		t.Errorf("it lives for %d s", n)
	}
	if _, err := s.pool.Exec(ctx, "UPDATE uploads SET expires_at = now()"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.store.Upload(ctx, one.ID); err != nil || !got.Expired {
		t.Errorf("%+v, %v", got, err)
	}
	s.buildFrom(t, one.ID)
	if _, err := s.store.BuildTemplate(ctx, s.copying(space.NewID(space.PrefixUpload))); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("a build with an upload that doesn't exist: %v", err)
	}
	foreign := s.copying(one.ID)
	foreign.Project = must(t)(s.store.EnsureProject(ctx, s.name+"-other", "default"))
	if _, err := s.store.BuildTemplate(ctx, foreign); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("a build with another project's upload: %v", err)
	}
	s.audit(t)
}

// copying is an intent that uses an upload.
func (s *scene) copying(upload string) record.NewTemplate {
	n := s.version("copies", upload)
	n.Build.Steps = []record.Step{{Copy: &record.Copy{Upload: upload, To: "/"}}}
	return n
}

func (s *scene) buildFrom(t *testing.T, upload string) record.NewTemplate {
	t.Helper()
	n := s.copying(upload)
	must(t)(s.store.BuildTemplate(t.Context(), n))
	return n
}

// TestUploadsArePruned keeps one that a build uses until the build has ended.
func TestUploadsArePruned(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ids := map[string]string{}
	for _, name := range []string{"used", "unused", "young"} {
		ids[name] = space.NewID(space.PrefixUpload)
		if _, err := s.store.CreateUpload(t.Context(), record.NewUpload{ID: ids[name], Project: s.project, Node: s.name, Token: tokenOf(name)}); err != nil {
			t.Fatal(err)
		}
	}
	n := s.buildFrom(t, ids["used"])
	if _, err := s.pool.Exec(t.Context(), "UPDATE uploads SET created_at = created_at - interval '25 hours' WHERE id <> $1", ids["young"]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.BuildTemplate(t.Context(), s.copying(ids["unused"])); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("a build with an old upload: %v", err)
	}
	there := func(want ...string) {
		t.Helper()
		if _, err := s.store.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, id := range ids {
			_, err := s.store.Upload(t.Context(), id)
			if is := err == nil; is != slices.Contains(want, name) {
				t.Errorf("upload %s: %v", name, err)
			}
		}
	}
	there("used", "young")
	s.ready(t, n.ID)
	there("young")
}

// uploaded is what the project's list of uploads says.
func (s *scene) uploaded(t *testing.T) []record.UploadInfo {
	t.Helper()
	list, err := s.store.Uploads(t.Context(), s.project, record.Position{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// uploadBytes is what of the project's room for uploads is used.
func (s *scene) uploadBytes(t *testing.T) int64 {
	t.Helper()
	p, err := s.store.Project(t.Context(), s.org, s.project)
	if err != nil {
		t.Fatal(err)
	}
	return p.UploadBytes
}

// TestUploadsAreCountedUntilTheyAreDeleted has a node report its uploads, and deletes one that a build uses, during the build and after it.
func TestUploadsAreCountedUntilTheyAreDeleted(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ctx, ids := t.Context(), []string{s.upload, space.NewID(space.PrefixUpload)}
	must(t)(s.store.CreateUpload(ctx, record.NewUpload{ID: ids[1], Project: s.project, Node: s.name, Token: tokenOf("other")}))
	see := func(node string, seen ...record.UploadSeen) {
		t.Helper()
		if _, err := s.store.Observe(ctx, record.Seen{Node: node, Uploads: seen}); err != nil {
			t.Fatal(err)
		}
	}
	see(s.name, record.UploadSeen{ID: ids[0], Bytes: 5}, record.UploadSeen{ID: ids[1], Bytes: 7}, record.UploadSeen{ID: space.NewID(space.PrefixUpload), Bytes: 9})
	see("another", record.UploadSeen{ID: ids[0], Bytes: 100})
	if n := s.uploadBytes(t); n != 12 {
		t.Errorf("%d bytes are used", n)
	}
	n := s.buildFrom(t, ids[0])
	for _, u := range s.uploaded(t) {
		if u.InUse != (u.ID == ids[0]) || u.UsableUntil.Sub(u.CreatedAt) != record.UploadKept {
			t.Errorf("listed: %+v", u)
		}
	}
	if node, err := s.store.DeleteUpload(ctx, s.project, ids[0]); space.CodeOf(err) != space.CodeConflict || node != "" {
		t.Errorf("while a build uses it: %q, %v", node, err)
	}
	for _, x := range [][2]string{{s.project, space.NewID(space.PrefixUpload)}, {must(t)(s.store.EnsureProject(ctx, s.name+"-other", "default")), ids[1]}} {
		if _, err := s.store.DeleteUpload(ctx, x[0], x[1]); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("what isn't the project's: %v", err)
		}
	}
	s.ready(t, n.ID)
	for i, want := range []string{s.name, ""} {
		if node, err := s.store.DeleteUpload(ctx, s.project, ids[0]); node != want || err != nil {
			t.Errorf("delete %d: %q, %v", i, node, err)
		}
	}
	if list := s.uploaded(t); s.uploadBytes(t) != 7 || len(list) != 1 || list[0].ID != ids[1] {
		t.Errorf("%d bytes are used by %+v", s.uploadBytes(t), list)
	}
	if w, err := s.store.Wanted(ctx, s.name); err != nil || !slices.Equal(w.Uploads, []record.UploadSeen{{ID: ids[1], Bytes: 7}}) {
		t.Errorf("the node should have %+v, %v", w.Uploads, err)
	}
	if u, err := s.store.Upload(ctx, ids[0]); err != nil || !u.Deleted {
		t.Errorf("%+v, %v", u, err)
	}
	again := s.copying(ids[0])
	again.Name = "again"
	if _, err := s.store.BuildTemplate(ctx, again); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("a build with a deleted upload: %v", err)
	}
	s.audit(t)
}

// TestUploadIsDeletedOrUsed orders builds with uploads while those are being deleted: one of the two is refused.
func TestUploadIsDeletedOrUsed(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	for i := range 20 {
		id := space.NewID(space.PrefixUpload)
		must(t)(s.store.CreateUpload(t.Context(), record.NewUpload{ID: id, Project: s.project, Node: s.name, Token: tokenOf(id)}))
		n := s.copying(id)
		n.Name = fmt.Sprint("copies-", i)
		var built, deleted error
		var both sync.WaitGroup
		both.Go(func() { _, built = s.store.BuildTemplate(t.Context(), n) })
		both.Go(func() { _, deleted = s.store.DeleteUpload(t.Context(), s.project, id) })
		both.Wait()
		first := built == nil && space.CodeOf(deleted) == space.CodeConflict
		if second := deleted == nil && space.CodeOf(built) == space.CodeInvalid; first == second {
			t.Errorf("the build: %v; the delete: %v", built, deleted)
		}
	}
	s.audit(t)
}
