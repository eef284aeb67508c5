package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

func (s *scene) addKey(t *testing.T, k record.NewKey) record.NewKey {
	t.Helper()
	if err := s.store.CreateKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k
}

func (s *scene) addUser(t *testing.T, name string, role space.Role) string {
	t.Helper()
	return must(t)(s.store.CreateUser(t.Context(), record.NewUser{ID: space.NewID(space.PrefixUser), Org: s.org, Name: name, Role: role, By: s.project}))
}

func (s *scene) valid(t *testing.T, k record.NewKey) bool {
	t.Helper()
	got, err := s.store.KeyByHash(t.Context(), k.Hash)
	if err != nil {
		t.Fatal(err)
	}
	return got.Valid
}

// TestLastOwnerStays tries every way to take an organisation's last owner's key away.
func TestLastOwnerStays(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	boss := s.addUser(t, "boss", space.RoleOwner)
	elsewhere := newRoom(t, s, record.Quota{})
	k := elsewhere.newKey(space.RoleOwner)
	k.Holder = boss
	s.addKey(t, k)
	expired := s.newKey(space.RoleOwner)
	expired.ExpiresAt = time.Now().Add(-time.Second)
	s.addKey(t, expired) // helps nobody
	scope := record.KeyScope{Org: s.org}
	for name, err := range map[string]error{
		"revoke":         s.store.RevokeKey(t.Context(), scope, k.ID),
		"demote":         s.store.SetUserRole(t.Context(), s.org, boss, space.RoleAdmin),
		"remove":         s.store.RemoveUser(t.Context(), s.org, boss),
		"delete project": s.store.DeleteProject(t.Context(), s.org, elsewhere.project),
	} {
		if space.CodeOf(err) != space.CodeConflict || !s.valid(t, k) {
			t.Errorf("%s: %v", name, err)
		}
	}
	second := s.addKey(t, s.newKey(space.RoleOwner))
	if err := s.store.RevokeKey(t.Context(), scope, k.ID); err != nil {
		t.Errorf("with another owner's key: %v", err)
	}
	if err := s.store.RevokeKey(t.Context(), scope, second.ID); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("and then that one: %v", err)
	}
	s.audit(t)
}

// TestOwnersDontRevokeEachOther has each of several owners revoke another's key at the same time: one is left.
func TestOwnersDontRevokeEachOther(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	var keys [6]record.NewKey
	for i := range keys {
		keys[i] = s.addKey(t, s.newKey(space.RoleOwner))
	}
	var wg sync.WaitGroup
	var refused atomic.Int32
	for _, k := range keys {
		wg.Go(func() {
			if err := s.store.RevokeKey(t.Context(), record.KeyScope{Org: s.org}, k.ID); err != nil {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if left := s.count(t, "SELECT count(*) FROM api_keys WHERE role = 'owner' AND revoked_at IS NULL"); left != 1 || refused.Load() != 1 {
		t.Errorf("%d keys are left, %d were refused", left, refused.Load())
	}
}

// TestUserTakesTheirKeysAlong removes a user: their keys end, and their name is free.
func TestUserTakesTheirKeysAlong(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	if !s.valid(t, s.key) {
		t.Fatal("the key isn't valid")
	}
	if err := s.store.SetUserRole(t.Context(), s.org, s.user, space.RoleViewer); err != nil {
		t.Fatal(err)
	}
	if k, err := s.store.KeyByHash(t.Context(), s.key.Hash); err != nil || k.Role() != space.RoleViewer || k.Granted != space.RoleAdmin {
		t.Errorf("after the user was demoted: %+v, %v", k, err)
	}
	if err := s.store.RemoveUser(t.Context(), s.org, s.user); err != nil || s.valid(t, s.key) {
		t.Errorf("the key of a user who is gone: %v, valid %v", err, s.valid(t, s.key))
	}
	if err := s.store.RemoveUser(t.Context(), s.org, s.user); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("again: %v", err)
	}
	s.addUser(t, "first", space.RoleViewer)
	s.audit(t)
}

// TestProjectGoesWhole deletes a project: not while it has sandboxes; with it go its keys and templates, and its name is free.
func TestProjectGoesWhole(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.addKey(t, s.newKey(space.RoleOwner)) // of the scene's project
	r := newRoom(t, s, record.Quota{})
	k := s.addKey(t, r.newKey(space.RoleOwner))
	tpl := r.newTemplate("own")
	must(t)(r.store.BuildTemplate(t.Context(), tpl))
	n := r.newSandbox()
	must(t)(r.store.CreateSandbox(t.Context(), n, roomy))
	if err := s.store.DeleteProject(t.Context(), s.org, r.project); space.CodeOf(err) != space.CodeConflict {
		t.Fatalf("with a sandbox: %v", err)
	}
	if _, err := r.verbs.Delete(t.Context(), r.project, n.Route.Sandbox); err != nil {
		t.Fatal(err)
	}
	p, err := s.store.Project(t.Context(), s.org, r.project)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.DeleteProject(t.Context(), s.org, r.project); err != nil || s.valid(t, k) {
		t.Fatalf("%v, its key is valid: %v", err, s.valid(t, k))
	}
	if _, err := s.store.Project(t.Context(), s.org, r.project); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("it's still there: %v", err)
	}
	if o, err := s.store.Operation(t.Context(), r.project, tpl.Operation); err != nil || o.Status != record.OperationFailed {
		t.Errorf("the build of its template goes on: %+v, %v", o, err)
	}
	if _, err := r.store.CreateSandbox(t.Context(), r.newSandbox(), roomy); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("a sandbox in it: %v", err)
	}
	if err := r.store.CreateKey(t.Context(), r.newKey(space.RoleViewer)); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("a key of it: %v", err)
	}
	must(t)(s.store.CreateProject(t.Context(), record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: p.Name, By: s.project}))
	s.audit(t)
}

// TestNamesAreTakenOnce makes projects and users of one name at once.
func TestNamesAreTakenOnce(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	var wg sync.WaitGroup
	var made, taken atomic.Int32
	note := func(err error) {
		switch space.CodeOf(err) {
		case "":
			made.Add(1)
		case space.CodeConflict:
			taken.Add(1)
		default:
			t.Error(err)
		}
	}
	for range 5 {
		wg.Go(func() {
			_, err := s.store.CreateProject(t.Context(), record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: "same", By: s.project})
			note(err)
		})
		wg.Go(func() {
			_, err := s.store.CreateUser(t.Context(), record.NewUser{ID: space.NewID(space.PrefixUser), Org: s.org, Name: "same", Role: space.RoleViewer, By: s.project})
			note(err)
		})
	}
	wg.Wait()
	if made.Load() != 2 || taken.Load() != 8 {
		t.Errorf("%d made, %d taken", made.Load(), taken.Load())
	}
	other := "default"
	r := newRoom(t, s, record.Quota{})
	if err := s.store.UpdateProject(t.Context(), s.org, r.project, record.ProjectChange{Name: &other}); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("renamed to a taken name: %v", err)
	}
}

// TestFirstProjectIsFound renames an organisation's first project: no other is made in its place.
func TestFirstProjectIsFound(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	newRoom(t, s, record.Quota{})
	name := "renamed"
	if err := s.store.UpdateProject(t.Context(), s.org, s.project, record.ProjectChange{Name: &name}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := s.store.EnsureProject(t.Context(), s.name, "default"); err != nil || got != s.project {
				t.Errorf("%s, %v, want %s", got, err, s.project)
			}
			if _, err := s.store.EnsureProject(t.Context(), "new", "default"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.count(t, "SELECT count(*) FROM projects"); n != 3 {
		t.Errorf("%d projects", n)
	}
}

// TestOldKeysArePruned ages keys and a user.
func TestOldKeysArePruned(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	old, young := s.addKey(t, s.newKey(space.RoleViewer)), s.addKey(t, s.newKey(space.RoleViewer))
	for _, k := range []record.NewKey{old, young} {
		if err := s.store.RevokeKey(t.Context(), record.KeyScope{Org: s.org}, k.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.store.RemoveUser(t.Context(), s.org, s.user); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"UPDATE api_keys SET revoked_at = revoked_at - interval '31 days' WHERE id IN ('" + old.ID + "', '" + s.key.ID + "')",
		"UPDATE users SET removed_at = removed_at - interval '31 days'",
	} {
		if _, err := s.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.store.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys, users := s.count(t, "SELECT count(*) FROM api_keys"), s.count(t, "SELECT count(*) FROM users"); keys != 1 || users != 0 {
		t.Errorf("%d keys and %d users are left", keys, users)
	}
}
