package keys_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/record"
)

// memory is a store of keys.
type memory struct {
	keys    map[string]record.Key
	touched int
	err     error
}

func (m *memory) EnsureProject(context.Context, string, string) (string, error) {
	return "prj_1", m.err
}

func (m *memory) CreateKey(_ context.Context, k record.NewKey) error {
	m.keys[k.Prefix] = record.Key{ID: k.ID, Project: k.Project, Prefix: k.Prefix, Hash: k.Hash}
	return m.err
}

func (m *memory) Key(_ context.Context, prefix string) (record.Key, error) {
	k, ok := m.keys[prefix]
	if !ok {
		return record.Key{}, space.Errorf(space.CodeNotFound, "no")
	}
	return k, m.err
}

func (m *memory) TouchKey(_ context.Context, id string) error {
	m.touched++
	for p, k := range m.keys {
		if k.ID == id {
			k.LastUsedAt = time.Now()
			m.keys[p] = k
		}
	}
	return nil
}

func TestAuthenticate(t *testing.T) {
	m := &memory{keys: map[string]record.Key{}}
	issued, err := keys.Bootstrap(t.Context(), m, "test")
	if err != nil || !strings.HasPrefix(issued.Key, issued.Prefix+"_") {
		t.Fatalf("%+v, %v", issued, err)
	}
	if k, err := keys.Authenticate(t.Context(), m, issued.Key); err != nil || k.Project != "prj_1" || k.ID != issued.ID {
		t.Errorf("%+v, %v", k, err)
	}
	other, err := keys.Bootstrap(t.Context(), m, "other")
	if err != nil {
		t.Fatal(err)
	}
	secret := issued.Key[len(issued.Prefix):]
	for name, key := range map[string]string{
		"empty": "", "prefix only": issued.Prefix, "no scheme": strings.TrimPrefix(issued.Key, "space_"), "upper case": strings.ToUpper(issued.Key),
		"another's secret": other.Prefix + secret, "longer": issued.Key + "a", "a line more": issued.Key + "\n", "token": "spaceatt_" + strings.Repeat("a", 52),
		"unknown": "space_aaaaaaaa" + secret,
	} {
		if _, err := keys.Authenticate(t.Context(), m, key); space.CodeOf(err) != space.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := m.keys[issued.Prefix]
	k.Revoked = true
	m.keys[issued.Prefix] = k
	if _, err := keys.Authenticate(t.Context(), m, issued.Key); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("revoked: %v", err)
	}
	m.err = space.Errorf(space.CodeUnavailable, "no database")
	if _, err := keys.Authenticate(t.Context(), m, issued.Key); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("without a database: %v", err)
	}
}

// TestUseIsNotedHourly keeps the hot path free of writes.
func TestUseIsNotedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{keys: map[string]record.Key{}}
		issued, err := keys.Bootstrap(t.Context(), m, "test")
		if err != nil {
			t.Fatal(err)
		}
		for range 120 {
			if _, err := keys.Authenticate(t.Context(), m, issued.Key); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // the bubble's time
		}
		if m.touched != 2 {
			t.Errorf("noted %d times within two hours", m.touched)
		}
	})
}
