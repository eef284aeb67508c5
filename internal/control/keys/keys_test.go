package keys_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

const (
	org     = "org_1"
	mine    = "prj_aaaaaaaaaaaaaaaaaaaaaaaaaa"
	another = "prj_bbbbbbbbbbbbbbbbbbbbbbbbbb"
	viewer  = "usr_aaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// memory is a store of keys.
type memory struct {
	keys    map[record.KeyHash]record.Key
	touched int
	err     error
}

func newMemory() *memory { return &memory{keys: map[record.KeyHash]record.Key{}} }

func (m *memory) EnsureProject(context.Context, string, string) (string, error) {
	return mine, m.err
}

func (m *memory) CreateKey(_ context.Context, k record.NewKey) error {
	m.keys[k.Hash] = record.Key{
		ID: k.ID, Org: org, Project: k.Project, Prefix: k.Prefix, Name: k.Name, Granted: k.Role, Holder: k.Holder,
		HolderRole: space.RoleViewer, Valid: true, ExpiresAt: k.ExpiresAt,
	}
	return m.err
}

func (m *memory) KeyByHash(_ context.Context, h record.KeyHash) (record.Key, error) {
	k, ok := m.keys[h]
	if !ok {
		return record.Key{}, space.Errorf(space.CodeNotFound, "no")
	}
	return k, m.err
}

func (m *memory) Key(_ context.Context, in record.KeyScope, id string) (record.Key, error) {
	for _, k := range m.keys {
		if k.ID == id && k.Org == in.Org && (in.Project == "" || in.Project == k.Project) {
			return k, nil
		}
	}
	return record.Key{}, space.Errorf(space.CodeNotFound, "no")
}

func (m *memory) Keys(context.Context, record.KeyScope, record.Position, int) ([]record.Key, error) {
	return nil, nil
}

func (m *memory) RevokeKey(ctx context.Context, in record.KeyScope, id string) error {
	return m.change(id, func(k *record.Key) { k.Valid = false })
}

func (m *memory) TouchKey(_ context.Context, id string) error {
	m.touched++
	return m.change(id, func(k *record.Key) { k.LastUsedAt = time.Now() })
}

func (m *memory) change(id string, do func(*record.Key)) error {
	for h, k := range m.keys {
		if k.ID == id {
			do(&k)
			m.keys[h] = k
		}
	}
	return nil
}

func (m *memory) Project(_ context.Context, _, id string) (record.Project, error) {
	if id != another {
		return record.Project{}, space.Errorf(space.CodeNotFound, "no")
	}
	return record.Project{ID: id}, nil
}

func (m *memory) User(_ context.Context, _, id string) (record.User, error) {
	if id != viewer {
		return record.User{}, space.Errorf(space.CodeNotFound, "no")
	}
	return record.User{ID: id, Role: space.RoleViewer}, nil
}

func bootstrap(t *testing.T, m *memory) (keys.Issued, record.Key) {
	t.Helper()
	issued, err := keys.Bootstrap(t.Context(), m, "test")
	if err != nil || !strings.HasPrefix(issued.Key, issued.Prefix+"_") {
		t.Fatalf("%+v, %v", issued, err)
	}
	k, err := keys.Authenticate(t.Context(), m, issued.Key)
	if err != nil || k.ID != issued.ID || k.Role() != space.RoleOwner {
		t.Fatalf("%+v, %v", k, err)
	}
	return issued, k
}

func TestAuthenticate(t *testing.T) {
	m := newMemory()
	issued, k := bootstrap(t, m)
	other, _ := bootstrap(t, m)
	secret := issued.Key[len(issued.Prefix):]
	for name, key := range map[string]string{
		"empty": "", "prefix only": issued.Prefix, "no scheme": strings.TrimPrefix(issued.Key, "space_"), "upper case": strings.ToUpper(issued.Key),
		"another's secret": other.Prefix + secret, "longer": issued.Key + "a", "a line more": issued.Key + "\n", "token": "spaceatt_" + strings.Repeat("a", 52),
		"unknown": "space_aaaaaaaa" + secret, "unknown e2b": "e2b_" + strings.Repeat("0", 40), "short e2b": "e2b_00", "not hex": "e2b_" + strings.Repeat("g", 40),
	} {
		if _, err := keys.Authenticate(t.Context(), m, key); space.CodeOf(err) != space.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := keys.New(m, new(wake.Bell)).Revoke(t.Context(), k, k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Authenticate(t.Context(), m, issued.Key); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("revoked: %v", err)
	}
	m.err = space.Errorf(space.CodeUnavailable, "no database")
	if _, err := keys.Authenticate(t.Context(), m, other.Key); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("without a database: %v", err)
	}
}

// TestUseIsNotedHourly keeps the hot path free of writes.
func TestUseIsNotedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		issued, _ := bootstrap(t, m)
		m.touched = 0
		for range 120 {
			if _, err := keys.Authenticate(t.Context(), m, issued.Key); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // the bubble's time
		}
		if m.touched != 1 {
			t.Errorf("noted %d times within two hours after the first use", m.touched)
		}
	})
}

func caller(role space.Role) record.Key {
	return record.Key{ID: "key_caller", Org: org, Project: mine, Granted: role, Valid: true}
}

// TestNobodyGivesMoreThanTheyHave makes keys of every role with callers of every role.
func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	ks := keys.New(newMemory(), new(wake.Bell))
	for _, by := range space.Roles() {
		for _, asked := range space.Roles() {
			made, _, err := ks.Create(t.Context(), caller(by), keys.Create{Name: "k", Role: &asked})
			switch {
			case !asked.AtMost(by):
				if space.CodeOf(err) != space.CodeForbidden {
					t.Errorf("%s made a key of %s: %v", by, asked, err)
				}
			case err != nil || made.Role() != asked:
				t.Errorf("%s, asked for %s: %+v, %v", by, asked, made, err)
			}
		}
		made, _, err := ks.Create(t.Context(), caller(by), keys.Create{Name: "k"})
		if want := by.Lower(space.RoleDeveloper); err != nil || made.Role() != want {
			t.Errorf("%s made a key of %s by default, want %s: %v", by, made.Role(), want, err)
		}
	}
}

// TestKeyNeverDoesMoreThanItsUser names a user who may only look.
func TestKeyNeverDoesMoreThanItsUser(t *testing.T) {
	ks := keys.New(newMemory(), new(wake.Bell))
	user, admin := viewer, space.RoleAdmin
	if _, _, err := ks.Create(t.Context(), caller(space.RoleOwner), keys.Create{Name: "k", User: &user, Role: &admin}); space.CodeOf(err) != space.CodeForbidden {
		t.Errorf("an admin's key of a viewer: %v", err)
	}
	made, _, err := ks.Create(t.Context(), caller(space.RoleOwner), keys.Create{Name: "k", User: &user})
	if err != nil || made.Holder != viewer || made.Role() != space.RoleViewer {
		t.Errorf("%+v, %v", made, err)
	}
	// Their keys make keys of theirs.
	held := caller(space.RoleAdmin)
	held.Holder, held.HolderRole = viewer, space.RoleAdmin
	if made, _, err := ks.Create(t.Context(), held, keys.Create{Name: "k"}); err != nil || made.Holder != viewer {
		t.Errorf("%+v, %v", made, err)
	}
	held.HolderRole = space.RoleViewer // demoted after the key was made
	if held.Role() != space.RoleViewer {
		t.Errorf("the key may %s", held.Role())
	}
}

func TestKeysOfAnotherProject(t *testing.T) {
	ks := keys.New(newMemory(), new(wake.Bell))
	project, missing := another, "prj_cccccccccccccccccccccccccc"
	if made, _, err := ks.Create(t.Context(), caller(space.RoleOwner), keys.Create{Name: "k", Project: &project}); err != nil || made.Project != another {
		t.Errorf("%+v, %v", made, err)
	}
	for _, p := range []*string{&project, &missing} { // whether it exists makes no difference to an admin
		if _, _, err := ks.Create(t.Context(), caller(space.RoleAdmin), keys.Create{Name: "k", Project: p}); space.CodeOf(err) != space.CodeForbidden {
			t.Errorf("an admin, %s: %v", *p, err)
		}
	}
	if _, _, err := ks.Create(t.Context(), caller(space.RoleOwner), keys.Create{Name: "k", Project: &missing}); space.CodeOf(err) != space.CodeNotFound {
		t.Errorf("missing: %v", err)
	}
}

func TestFormats(t *testing.T) {
	m := newMemory()
	ks := keys.New(m, new(wake.Bell))
	e2b := keys.FormatE2B
	made, secret, err := ks.Create(t.Context(), caller(space.RoleOwner), keys.Create{Name: "sdk", Format: &e2b})
	if err != nil || !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(secret) || made.Prefix != secret[:12] {
		t.Fatalf("%+v, %v", made, err)
	}
	if k, err := keys.Authenticate(t.Context(), m, secret); err != nil || k.ID != made.ID {
		t.Errorf("%+v, %v", k, err)
	}
}

func TestOnlyAsMuchIsRevoked(t *testing.T) {
	m := newMemory()
	bell := new(wake.Bell)
	ks := keys.New(m, bell)
	_, owner := bootstrap(t, m)
	if err := ks.Revoke(t.Context(), caller(space.RoleAdmin), owner.ID); space.CodeOf(err) != space.CodeForbidden {
		t.Errorf("an admin revoked an owner's key: %v", err)
	}
	elsewhere := caller(space.RoleAdmin)
	elsewhere.Project = another
	for _, id := range []string{owner.ID, "key_x", ""} {
		if err := ks.Revoke(t.Context(), elsewhere, id); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("a key of another project, %q: %v", id, err)
		}
	}
	rung, stop := bell.Listen(owner.ID)
	defer stop()
	if err := ks.Revoke(t.Context(), owner, owner.ID); err != nil {
		t.Fatal(err)
	}
	<-rung
}

func TestCreateRefuses(t *testing.T) {
	ks := keys.New(newMemory(), new(wake.Bell))
	role, format := space.Role("root"), keys.Format("jwt")
	past, far := time.Now().Add(-time.Second), time.Now().Add(11*365*24*time.Hour)
	for field, c := range map[string]keys.Create{
		"name": {Name: ""}, "role": {Name: "k", Role: &role}, "format": {Name: "k", Format: &format}, "expires_at": {Name: "k", ExpiresAt: &past},
	} {
		wantField(t, ks, field, c)
	}
	wantField(t, ks, "name", keys.Create{Name: strings.Repeat("ü", 65)})
	wantField(t, ks, "name", keys.Create{Name: "a\x00b"})
	wantField(t, ks, "name", keys.Create{Name: " a"})
	wantField(t, ks, "expires_at", keys.Create{Name: "k", ExpiresAt: &far})
}

func wantField(t *testing.T, ks *keys.Keys, field string, c keys.Create) {
	t.Helper()
	_, _, err := ks.Create(t.Context(), caller(space.RoleOwner), c)
	e, ok := err.(*space.Error)
	if !ok || e.Code != space.CodeInvalid || e.Field != field {
		t.Errorf("%+v: %v, want the field %s refused", c, err, field)
	}
}
