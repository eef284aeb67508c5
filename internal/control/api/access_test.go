package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/api"
)

// served are the operations of the contract that this process serves, by "METHOD /path".
func served(t *testing.T) map[string]*openapi3.Operation {
	t.Helper()
	out := map[string]*openapi3.Operation{}
	for path, item := range loadContract(t).Paths.Map() {
		for method, o := range item.Operations() {
			if !slices.Equal(o.Tags, elsewhere) {
				out[method+" "+path] = o
			}
		}
	}
	return out
}

// TestEveryOperationNeedsOnePermission holds that what takes a key needs a permission that somebody has, and what is open needs none.
func TestEveryOperationNeedsOnePermission(t *testing.T) {
	routes := api.Routes()
	for pattern, o := range served(t) {
		needs, open := routes[pattern].Needs, o.Security != nil && len(*o.Security) == 0
		switch {
		case open && needs != "":
			t.Errorf("%s is open and needs %s", pattern, needs)
		case !open && !space.RoleOwner.May(needs):
			t.Errorf("%s needs %q, which nobody has", pattern, needs)
		}
		if reads := strings.HasPrefix(pattern, "GET "); !open && reads != strings.HasSuffix(string(needs), ":read") {
			t.Errorf("%s needs %s: who may read must not change anything, and reading needs no more", pattern, needs)
		}
	}
}

var placeRE = regexp.MustCompile(`\{[a-z]+\}`)

// TestRolesOpenWhatTheyMay calls every operation with a key of every role, and with keys that are worth nothing.
func TestRolesOpenWhatTheyMay(t *testing.T) {
	r := newRig(t)
	project := r.me(t).Project.Id
	type holder struct {
		name, key string
		role      space.Role
	}
	holders := []holder{{"no key", "", ""}, {"an unknown key", "space_aaaaaaaa_" + strings.Repeat("a", 52), ""}, {"a revoked key", r.revoked(t, project), ""}, {"an expired key", r.expired(t, project), ""}}
	for _, role := range space.Roles() {
		holders = append(holders, holder{"the role " + string(role), r.keyOf(t, project, role), role})
	}
	routes := api.Routes()
	for pattern, o := range served(t) {
		method, path, _ := strings.Cut(pattern, " ")
		path = placeRE.ReplaceAllString(path, "nothing")
		open := routes[pattern].Open
		for _, h := range holders {
			header := []string{"Authorization", ""}
			if h.key != "" {
				header[1] = "Bearer " + h.key
			}
			got := r.do(t, method, path, nil, header...)
			unknown, forbidden := got.status == http.StatusUnauthorized, got.status == http.StatusForbidden
			if want := !open && h.role == ""; unknown != want {
				t.Errorf("%s with %s: %d", o.OperationID, h.name, got.status)
			}
			if want := !open && h.role != "" && !h.role.May(routes[pattern].Needs); forbidden != want {
				t.Errorf("%s with %s, which needs %s: %d", o.OperationID, h.name, routes[pattern].Needs, got.status)
			}
		}
	}
}

func (r *rig) revoked(t *testing.T, project string) string {
	t.Helper()
	key := r.keyOf(t, project, space.RoleOwner)
	r.sql(t, "UPDATE api_keys SET revoked_at = now() WHERE id = (SELECT id FROM api_keys ORDER BY created_at DESC LIMIT 1)")
	return key
}

func (r *rig) expired(t *testing.T, project string) string {
	t.Helper()
	key := r.keyOf(t, project, space.RoleOwner)
	r.sql(t, "UPDATE api_keys SET expires_at = now() WHERE id = (SELECT id FROM api_keys ORDER BY created_at DESC LIMIT 1)")
	return key
}
