package api_test

import (
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

func (r *rig) me(t *testing.T) gen.Me {
	t.Helper()
	return decode[gen.Me](t, r.do(t, "GET", "/v1/me", nil).want(t, 200))
}

func TestMe(t *testing.T) {
	r := newRig(t)
	me := r.me(t)
	if me.Role != gen.RoleOwner || me.Key.Prefix != r.key[:14] || me.Org.Name != "default" || me.Project.Name != "default" || me.Key.Project != me.Project.Id {
		t.Errorf("me: %+v", me)
	}
	if me.Project.Quota != (gen.Quota{}) || me.Project.Used.Sandboxes != 0 || me.Project.Used.DiskMb != 0 {
		t.Errorf("a new project: %+v", me.Project)
	}
	r.sandbox(t) // its disk, and its template's
	if used := r.me(t).Project.Used; used.Sandboxes != 1 || used.Vcpus != 1 || used.MemoryMb != 128 || used.DiskMb != 2*64 {
		t.Errorf("with a sandbox: %+v", used)
	}
}

func TestRolesTellWhatTheyMay(t *testing.T) {
	r := newRig(t)
	page := decode[gen.RolePage](t, r.do(t, "GET", "/v1/roles", nil).want(t, 200))
	if len(page.Items) != len(space.Roles()) {
		t.Fatalf("%+v", page)
	}
	for i, role := range space.Roles() {
		if got := page.Items[i]; string(got.Role) != string(role) || len(got.Permissions) != len(role.Permissions()) {
			t.Errorf("%s: %+v", role, got)
		}
	}
}
