package space

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRolesAreDocumented compares the table in docs/tenancy.md with the one in the code.
func TestRolesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("docs/tenancy.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `([a-z]+:[a-z]+)` \\|(.*)\\|$")
	documented := map[Permission]bool{}
	for line := range bytes.Lines(b) {
		m := row.FindStringSubmatch(strings.TrimSpace(string(line)))
		if m == nil {
			continue
		}
		p, cells := Permission(m[1]), strings.Split(m[2], "|")
		documented[p] = true
		for i, r := range Roles() {
			if marked := strings.TrimSpace(cells[i]) == "✓"; marked != r.May(p) {
				t.Errorf("%s: %s is marked %v, the code says %v", p, r, marked, r.May(p))
			}
		}
	}
	for p := range leastRole {
		if !documented[p] {
			t.Errorf("%s isn't in the table", p)
		}
	}
}

func TestRolesAreALadder(t *testing.T) {
	roles := Roles()
	if roles[0] != RoleOwner || len(roles) != 4 {
		t.Fatalf("roles: %v", roles)
	}
	for i, r := range roles {
		for j, other := range roles {
			if r.AtMost(other) != (i >= j) {
				t.Errorf("%s at most %s: %v", r, other, r.AtMost(other))
			}
			if want := roles[max(i, j)]; r.Lower(other) != want {
				t.Errorf("the lower of %s and %s is %s, want %s", r, other, r.Lower(other), want)
			}
		}
		if i > 0 {
			for _, p := range r.Permissions() {
				if !roles[i-1].May(p) {
					t.Errorf("%s may %s and %s may not", r, p, roles[i-1])
				}
			}
		}
	}
	if owner := RoleOwner.Permissions(); len(owner) != len(leastRole) || !slices.IsSorted(owner) {
		t.Errorf("an owner's permissions: %v", owner)
	}
}

// TestAbsenceMeansDeny asks with what isn't in the vocabulary.
func TestAbsenceMeansDeny(t *testing.T) {
	for _, r := range []Role{"", "root", "Owner"} {
		if r.May(PermissionReadSelf) || r.Known() || r.AtMost(RoleOwner) || r.Lower(RoleOwner) != "" || len(r.Permissions()) > 0 {
			t.Errorf("role %q may something", r)
		}
	}
	if RoleOwner.May("") || RoleOwner.May("everything:write") || RoleOwner.AtMost("root") {
		t.Error("an owner may what nobody may")
	}
}
