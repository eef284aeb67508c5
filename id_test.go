package space_test

import (
	"strings"
	"testing"

	space "github.com/space-platform/space"
)

func TestIDs(t *testing.T) {
	id := space.NewID(space.PrefixSandbox)
	if err := space.CheckID(space.PrefixSandbox, id); err != nil {
		t.Error(err)
	}
	if id == space.NewID(space.PrefixSandbox) {
		t.Error("two ids are equal")
	}
	if l := space.HostLabel(id); strings.ContainsAny(l, "_-ABCDEFGHIJKLMNOPQRSTUVWXYZ") || "sbx_"+l != id {
		t.Errorf("host label %q of %s", l, id)
	}
	for _, bad := range []string{"", "sbx_", "exe_" + space.HostLabel(id), id + "a", id[:len(id)-1], strings.ToUpper(id), "sbx_" + strings.Repeat("0", 26), "sbx_" + strings.Repeat("é", 13)} {
		if space.CheckID(space.PrefixSandbox, bad) == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func FuzzCheckID(f *testing.F) {
	f.Add("sbx_abcdefghijklmnopqrstuvwxyz")
	f.Fuzz(func(t *testing.T, s string) {
		if space.CheckID(space.PrefixSandbox, s) == nil && (len(s) != 30 || strings.ContainsAny(s, "/.\x00 ")) {
			t.Errorf("%q: accepted", s)
		}
	})
}
