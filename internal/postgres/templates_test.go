package postgres_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/telemetry"
)

// version is an intent to build a name with some content.
func (s *scene) version(name, content string, tags ...string) record.NewTemplate {
	n := s.newTemplate(name)
	n.Tags = tags
	n.Content = func(map[string]string) ([32]byte, error) { return sha256.Sum256([]byte(content)), nil }
	return n
}

// built builds a version to its end, and returns its id.
func (s *scene) built(t *testing.T, n record.NewTemplate) string {
	t.Helper()
	must(t)(s.store.BuildTemplate(t.Context(), n))
	s.ready(t, n.ID)
	return n.ID
}

func (s *scene) ready(t *testing.T, id string) {
	t.Helper()
	s.observeTemplate(t, id, record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:1", Shape: s.tpl.Shape})
}

func (s *scene) failed(t *testing.T, id string) {
	t.Helper()
	s.observeTemplate(t, id, record.TemplateStatus{State: record.TemplateFailed, FailedStep: 2, Error: space.Errorf(space.CodeGuest, "step 2: exit status 1")})
}

// means asserts what a reference means; "" is nothing.
func (s *scene) means(t *testing.T, name, tag, want string) {
	t.Helper()
	got, err := s.store.Template(t.Context(), s.project, record.TemplateRef{Name: name, Tag: tag})
	if want == "" && space.CodeOf(err) == space.CodeNotFound {
		return
	}
	if err != nil || got.ID != want {
		t.Errorf("%s:%s means %s, %v, want %s", name, tag, got.ID, err, want)
	}
}

func TestSameContentIsTheSameTemplate(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	first := s.version("web", "a")
	must(t)(s.store.BuildTemplate(t.Context(), first))
	again := s.version("web", "a", "v1")
	if o := must(t)(s.store.BuildTemplate(t.Context(), again)); o != first.Operation {
		t.Errorf("the same content is built again: %s", o)
	}
	s.means(t, "web", "v1", "")
	s.ready(t, first.ID)
	s.means(t, "web", "", first.ID)
	s.means(t, "web", "v1", first.ID) // asked for while it was built
	if o := must(t)(s.store.BuildTemplate(t.Context(), s.version("web", "a", "v2"))); o != first.Operation {
		t.Errorf("the same content is built again: %s", o)
	}
	s.means(t, "web", "v2", first.ID)
	anew := s.version("web", "a")
	anew.Build.NoCache = true
	if o := must(t)(s.store.BuildTemplate(t.Context(), anew)); o != anew.Operation {
		t.Error("a build without a cache was answered with an earlier one")
	}
	s.audit(t)
}

// TestAnotherVersionTakesTheName has content change: until it is ready everything means what it meant.
func TestAnotherVersionTakesTheName(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one := s.built(t, s.version("web", "a", "stable", "v1"))
	two := s.version("web", "b", "stable", "v2")
	must(t)(s.store.BuildTemplate(t.Context(), two))
	s.means(t, "web", "", one)
	s.means(t, "web", "stable", one)
	s.means(t, "web", "v2", two.ID) // it meant nothing before
	s.ready(t, two.ID)
	s.means(t, "web", "", two.ID)
	s.means(t, "web", "stable", two.ID)
	s.means(t, "web", "v1", one)
	if o := must(t)(s.store.BuildTemplate(t.Context(), s.version("web", "a"))); o == "" {
		t.Error("no operation")
	}
	s.means(t, "web", "", two.ID)
	s.audit(t)
}

// TestNewestVersionWins has two builds end in the other order.
func TestNewestVersionWins(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one, two := s.version("web", "a", "t"), s.version("web", "b", "t")
	must(t)(s.store.BuildTemplate(t.Context(), one))
	must(t)(s.store.BuildTemplate(t.Context(), two))
	s.means(t, "web", "", one.ID)
	s.ready(t, two.ID)
	s.means(t, "web", "", two.ID)
	s.ready(t, one.ID)
	s.means(t, "web", "", two.ID)
	s.means(t, "web", "t", two.ID)
	s.audit(t)
}

// TestTagStaysThroughARebuild has a user move a tag back, and the node build the newer version anew by itself.
func TestTagStaysThroughARebuild(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one, two := s.built(t, s.version("web", "a")), s.built(t, s.version("web", "b", "stable"))
	if err := s.store.SetTemplateTag(t.Context(), s.project, one, "stable"); err != nil {
		t.Fatal(err)
	}
	s.observeTemplate(t, two, record.TemplateStatus{State: record.TemplateBuilding})
	s.ready(t, two)
	s.means(t, "web", "stable", one)
	s.means(t, "web", "", two)
}

// TestRebuildHasItsOperation has a node build a template anew by itself: who builds it then gets an operation that ends when it's ready.
func TestRebuildHasItsOperation(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	first := s.version("web", "a")
	id := s.built(t, first)
	s.observeTemplate(t, id, record.TemplateStatus{State: record.TemplateBuilding})
	second := must(t)(s.store.BuildTemplate(t.Context(), s.version("web", "a")))
	if third := must(t)(s.store.BuildTemplate(t.Context(), s.version("web", "a"))); second == first.Operation || third != second {
		t.Errorf("operations %s, %s, %s", first.Operation, second, third)
	}
	if o, err := s.store.Operation(t.Context(), s.project, second); err != nil || o.Ended() || o.Template != id {
		t.Errorf("%+v, %v", o, err)
	}
	ended, err := s.store.Observe(t.Context(), record.Seen{Templates: []record.TemplateSeen{{ID: id, Status: record.TemplateStatus{State: record.TemplateReady}}}})
	if err != nil || !slices.Equal(ended, []string{second}) {
		t.Errorf("ended %v, %v", ended, err)
	}
	if o := must(t)(s.store.BuildTemplate(t.Context(), s.version("web", "a"))); o != second {
		t.Errorf("ready again, with operation %s", o)
	}
	s.audit(t)
}

func TestFailedBuildIsReplaced(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one := s.version("web", "a", "v1")
	must(t)(s.store.BuildTemplate(t.Context(), one))
	s.failed(t, one.ID)
	got, err := s.store.Template(t.Context(), s.project, record.TemplateRef{Name: "web"})
	if err != nil || got.State != record.TemplateFailed || got.FailedStep != 2 || got.Error == nil || !got.Named {
		t.Fatalf("%+v, %v", got, err)
	}
	two := s.version("web", "a")
	if o := must(t)(s.store.BuildTemplate(t.Context(), two)); o != two.Operation {
		t.Errorf("a failed build is answered with itself: %s", o)
	}
	s.means(t, "web", "", two.ID)
	s.means(t, "web", "v1", two.ID)
	s.failed(t, one.ID) // heard late
	old, err := s.store.Template(t.Context(), s.project, record.TemplateRef{ID: one.ID})
	if err != nil || old.Named || old.State != record.TemplateFailed {
		t.Errorf("the failed one can't be read by its id: %+v, %v", old, err)
	}
	list, err := s.store.Templates(t.Context(), s.project, record.Position{}, 10)
	if err != nil || len(list) != 2 || list[0].ID != two.ID {
		t.Errorf("list: %+v, %v", list, err)
	}
	s.audit(t)
}

// TestFailedRebuildKeepsItsTags has a node fail to build a version anew; other content doesn't take over what meant it.
func TestFailedRebuildKeepsItsTags(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	one := s.built(t, s.version("web", "a", "v1"))
	s.observeTemplate(t, one, record.TemplateStatus{State: record.TemplateBuilding})
	s.failed(t, one)
	two := s.version("web", "b")
	must(t)(s.store.BuildTemplate(t.Context(), two))
	s.means(t, "web", "", two.ID) // the name meant what failed
	s.means(t, "web", "v1", one)
	three := s.version("web", "a")
	must(t)(s.store.BuildTemplate(t.Context(), three))
	s.means(t, "web", "v1", three.ID) // the same content
	s.audit(t)
}

func TestAliases(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ctx := t.Context()
	one := s.built(t, s.version("web", "a", "v1"))
	other := s.built(t, s.version("db", "x"))
	set := func(template, alias string) error { return s.store.SetTemplateAlias(ctx, s.project, template, alias) }
	for range 2 {
		if err := set(one, "www"); err != nil {
			t.Fatal(err)
		}
	}
	s.means(t, "www", "", one)
	s.means(t, "www", "v1", one)
	two := s.built(t, s.version("web", "b"))
	s.means(t, "www", "", two) // it means what the name means
	for alias, template := range map[string]string{"www": other, "db": one, "web": one} {
		if err := set(template, alias); space.CodeOf(err) != space.CodeConflict {
			t.Errorf("alias %s: %v", alias, err)
		}
	}
	_, err := s.store.BuildTemplate(ctx, s.version("www", "c"))
	var e *space.Error
	if !errors.As(err, &e) || e.Field != "name" || !strings.Contains(e.Message, "web") {
		t.Errorf("a template with an alias as its name: %v", err)
	}
	if err := s.store.DeleteTemplateAlias(ctx, s.project, other, "www"); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("another's alias: %v", err)
	}
	if err := s.store.DeleteTemplateAlias(ctx, s.project, one, "www"); err != nil {
		t.Error(err)
	}
	s.means(t, "www", "", "")
	for i := range 16 {
		if err := set(one, fmt.Sprintf("a%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := set(one, "a16"); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("the 17th alias: %v", err)
	}
	s.audit(t)
}

func TestTags(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ctx := t.Context()
	one, two := s.built(t, s.version("web", "a")), s.built(t, s.version("web", "b"))
	if err := s.store.SetTemplateTag(ctx, s.project, one, "stable"); err != nil {
		t.Fatal(err)
	}
	s.means(t, "web", "stable", one)
	if err := s.store.DeleteTemplateTag(ctx, s.project, two, "stable"); err != nil {
		t.Errorf("the name's tag, by another version: %v", err)
	}
	if err := s.store.DeleteTemplateTag(ctx, s.project, two, "stable"); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("no such tag: %v", err)
	}
	if err := s.store.SetTemplateTag(ctx, "prj_other", one, "x"); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("another project's template: %v", err)
	}
	for i := range 256 {
		if err := s.store.SetTemplateTag(ctx, s.project, two, fmt.Sprintf("t%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.store.SetTemplateTag(ctx, s.project, two, "t256"); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("the 257th tag: %v", err)
	}
	s.means(t, "web", "t256", "")
}

func TestDeleteTemplate(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	ctx := t.Context()
	_, _, err := s.store.DeleteTemplate(ctx, s.project, s.tpl.ID)
	if space.CodeOf(err) != space.CodeConflict || !strings.Contains(err.Error(), "1 sandbox:") {
		t.Errorf("a template with a sandbox: %v", err)
	}
	derived := s.version("web", "a", "v1")
	derived.Build.Source = record.Source{Template: s.tpl.ID}
	must(t)(s.store.BuildTemplate(ctx, derived))
	must(t)(s.store.CreateSandbox(ctx, s.newSandbox(), roomy))
	_, _, err = s.store.DeleteTemplate(ctx, s.project, s.tpl.ID)
	if space.CodeOf(err) != space.CodeConflict || !strings.Contains(err.Error(), "2 sandboxes and 1 template that is being built:") {
		t.Errorf("a template with two sandboxes and a build: %v", err)
	}
	if err := s.store.SetTemplateAlias(ctx, s.project, derived.ID, "www"); err != nil {
		t.Fatal(err)
	}
	node, ended, err := s.store.DeleteTemplate(ctx, s.project, derived.ID)
	if err != nil || node != s.name || !slices.Equal(ended, []string{derived.Operation}) {
		t.Fatalf("a template that is being built: %s, %v, %v", node, ended, err)
	}
	for _, ref := range []record.TemplateRef{{ID: derived.ID}, {Name: "web"}, {Name: "web", Tag: "v1"}, {Name: "www"}} {
		if _, err := s.store.Template(ctx, s.project, ref); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%s of a deleted template: %v", ref, err)
		}
	}
	if _, ended, err := s.store.DeleteTemplate(ctx, s.project, derived.ID); err != nil || len(ended) > 0 {
		t.Errorf("deleted again: %v, %v", ended, err)
	}
	if _, _, err := s.store.DeleteTemplate(ctx, "prj_other", s.tpl.ID); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("another project's template: %v", err)
	}
	s.ready(t, derived.ID) // the node was late
	s.means(t, "web", "", "")
	s.built(t, s.version("www", "b")) // the alias is free
	s.audit(t)
}

// TestDeleteRacesWithItsUse deletes a template while a sandbox, and a template on it, are made: either is refused, or the delete is.
func TestDeleteRacesWithItsUse(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	for i := range 20 {
		id := s.built(t, s.version("web", fmt.Sprint(i)))
		box := s.newSandbox()
		box.Template = id
		derived := s.version(fmt.Sprintf("derived%d", i), "a")
		derived.Build.Source = record.Source{Template: id}
		var wg sync.WaitGroup
		var deleteErr, useErr error
		wg.Go(func() { _, _, deleteErr = s.store.DeleteTemplate(t.Context(), s.project, id) })
		wg.Go(func() {
			if i%2 == 0 {
				_, useErr = s.store.CreateSandbox(t.Context(), box, roomy)
			} else {
				_, useErr = s.store.BuildTemplate(t.Context(), derived)
			}
		})
		wg.Wait()
		deleted, used := deleteErr == nil, useErr == nil
		if deleted == used || !deleted && space.CodeOf(deleteErr) != space.CodeConflict || !used && space.CodeOf(useErr) != space.CodeNotFound {
			t.Errorf("delete: %v; use: %v", deleteErr, useErr)
		}
	}
	s.audit(t)
}

// TestBuildsOfOneNameAtOnce has many ask for the same, and get the same.
func TestBuildsOfOneNameAtOnce(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	var wg sync.WaitGroup
	var got [8]string
	for i := range got {
		wg.Go(func() { got[i], _ = s.store.BuildTemplate(t.Context(), s.version("web", "a")) })
	}
	wg.Wait()
	for _, o := range got {
		if o == "" || o != got[0] {
			t.Errorf("operations: %v", got)
		}
	}
	s.audit(t)
}

// names is what references should mean, kept in the simplest way.
type names struct {
	versions []*version
	name     *version
	tags     map[string]*version
}

type version struct {
	id, content string
	tags        []string
	state       record.TemplateState
	was         bool // ready once
	gone        bool // deleted or replaced
}

// newest is the newest version that hasn't failed.
func (n *names) newest() *version {
	for _, v := range slices.Backward(n.versions) {
		if !v.gone && v.state != record.TemplateFailed {
			return v
		}
	}
	return nil
}

func (n *names) age(v *version) int { return slices.Index(n.versions, v) }

func (n *names) failed(v *version) bool { return v != nil && v.state == record.TemplateFailed }

func (n *names) build(id, content string, tags []string, noCache bool) {
	if v := n.newest(); v != nil && v.content == content && !noCache {
		if v.state == record.TemplateReady {
			for _, tag := range tags {
				n.tags[tag] = v
			}
		} else {
			v.tags = append(v.tags, tags...)
		}
		return
	}
	v := &version{id: id, content: content, tags: tags, state: record.TemplateBuilding}
	for _, old := range n.versions {
		if !old.gone && n.failed(old) && (!old.was || old.content == content) {
			old.gone = true
			n.replace(old, v)
		}
	}
	n.versions = append(n.versions, v)
	if n.name == nil || n.failed(n.name) {
		n.name = v
	}
	for _, tag := range tags {
		if n.tags[tag] == nil || n.failed(n.tags[tag]) {
			n.tags[tag] = v
		}
	}
}

func (n *names) replace(old, by *version) {
	if n.name == old {
		n.name = by
	}
	for tag, v := range n.tags {
		if v == old && by == nil {
			delete(n.tags, tag)
		} else if v == old {
			n.tags[tag] = by
		}
	}
}

func (n *names) ready(v *version) {
	if v.gone || v.state == record.TemplateFailed {
		return
	}
	v.state = record.TemplateReady
	if v.was {
		return
	}
	v.was = true
	if n.name == nil || n.age(n.name) <= n.age(v) {
		n.name = v
	}
	for _, tag := range v.tags {
		if n.tags[tag] == nil || n.age(n.tags[tag]) <= n.age(v) {
			n.tags[tag] = v
		}
	}
}

// TestNamesFollowTheModel does anything in any order on a real database, and compares what each reference means with the model.
func TestNamesFollowTheModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value
	if checks.String() == "100" { // each step is several transactions: fewer of them, unless more are asked for
		defer checks.Set("100")
		_ = checks.Set("15")
	}
	s := newScene(t, pgtest.Pool(t))
	project := s.project
	defer func() { s.project = project; s.audit(t) }()
	rapid.Check(t, func(r *rapid.T) {
		var err error
		if s.project, err = s.store.EnsureProject(r.Context(), space.NewID(space.PrefixOrg), "default"); err != nil {
			r.Fatal(err)
		}
		n := &names{tags: map[string]*version{}}
		some := func(r *rapid.T) *version {
			if len(n.versions) == 0 {
				return nil
			}
			return rapid.SampledFrom(n.versions).Draw(r, "version")
		}
		status := func(v *version, st record.TemplateState) { s.tell(r, v.id, st) }
		r.Repeat(map[string]func(*rapid.T){
			"build": func(r *rapid.T) {
				content := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "content")
				tags := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID).Draw(r, "tags")
				intent := s.version("web", content, tags...)
				intent.Build.NoCache = rapid.Bool().Draw(r, "no cache")
				if _, err := s.store.BuildTemplate(t.Context(), intent); err != nil {
					r.Fatal(err)
				}
				n.build(intent.ID, content, tags, intent.Build.NoCache)
			},
			"is ready": func(r *rapid.T) {
				if v := some(r); v != nil {
					status(v, record.TemplateReady)
					n.ready(v)
				}
			},
			"builds": func(r *rapid.T) {
				if v := some(r); v != nil {
					status(v, record.TemplateBuilding)
					if !v.gone && v.state == record.TemplateReady {
						v.state = record.TemplateBuilding
					}
				}
			},
			"fails": func(r *rapid.T) {
				if v := some(r); v != nil {
					status(v, record.TemplateFailed)
					if !v.gone {
						v.state = record.TemplateFailed
					}
				}
			},
			"tag": func(r *rapid.T) {
				if v := some(r); v != nil {
					err := s.store.SetTemplateTag(t.Context(), s.project, v.id, "x")
					if v.gone != (space.CodeOf(err) == space.CodeNotFound) || !v.gone && err != nil {
						r.Fatal(err)
					}
					if !v.gone {
						n.tags["x"] = v
					}
				}
			},
			"delete": func(r *rapid.T) {
				if v := some(r); v != nil {
					if _, _, err := s.store.DeleteTemplate(t.Context(), s.project, v.id); err != nil {
						r.Fatal(err)
					}
					v.gone = true
					n.replace(v, nil)
				}
			},
			"": func(r *rapid.T) { s.compare(r, n) },
		})
	})
}

func (s *scene) tell(r *rapid.T, id string, state record.TemplateState) {
	status := record.TemplateStatus{State: state}
	if state == record.TemplateFailed {
		status.Error = space.Errorf(space.CodeGuest, "no")
	}
	if _, err := s.store.Observe(r.Context(), record.Seen{Templates: []record.TemplateSeen{{ID: id, Status: status}}}); err != nil {
		r.Fatal(err)
	}
}

func (s *scene) compare(r *rapid.T, n *names) {
	want := map[string]*version{"web": n.name, "web:x": n.tags["x"], "web:y": n.tags["y"]}
	for _, ref := range []record.TemplateRef{{Name: "web"}, {Name: "web", Tag: "x"}, {Name: "web", Tag: "y"}} {
		got, err := s.store.Template(r.Context(), s.project, ref)
		v := want[ref.String()]
		switch {
		case v == nil && space.CodeOf(err) == space.CodeNotFound:
		case v == nil || err != nil || got.ID != v.id || got.State != v.state:
			r.Fatalf("%s means %+v, %v, want %+v", ref, got, err, v)
		}
	}
}

// TestFailureNamesFieldStepAndRequest has builds that fail in a step, and behind the last one: the template and its operation tell the field, and who asked.
func TestFailureNamesFieldStepAndRequest(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	for field, step := range map[string]int{"steps[1]": 2, "ready_check": record.AfterSteps, "image": 0} {
		n := s.version("web", field)
		op, err := s.store.BuildTemplate(telemetry.WithRequest(t.Context(), "req_asked"), n)
		if err != nil {
			t.Fatal(err)
		}
		why := &space.Error{Code: space.CodeGuest, Field: field, Message: "no"}
		s.observeTemplate(t, n.ID, record.TemplateStatus{State: record.TemplateFailed, FailedStep: step, Error: why})
		tpl, err := s.store.Template(t.Context(), s.project, record.TemplateRef{ID: n.ID})
		if err != nil || *tpl.Error != *why || tpl.FailedStep != step || tpl.Asked != "req_asked" {
			t.Errorf("%+v, %v", tpl, err)
		}
		o, err := s.store.Operation(t.Context(), s.project, op)
		if err != nil || *o.Error != *why || o.Asked != "req_asked" {
			t.Errorf("%+v, %v", o, err)
		}
	}
}
