package main

import (
	"slices"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

func TestAddressLeavesTheCommandLine(t *testing.T) {
	for _, x := range []struct{ args, want []string }{
		{[]string{"space", "up", "--database-url", "postgres://a:b@c/d"}, []string{"space", "up"}},
		{[]string{"space", "up", "--database-url=postgres://a:b@c/d", "--no-install"}, []string{"space", "up", "--no-install"}},
		{[]string{"space", "--instance", "x", "up", "--database-url"}, []string{"space", "--instance", "x", "up"}},
		{[]string{"space", "up", "--", "--database-url", "x"}, []string{"space", "up", "--", "--database-url", "x"}},
		{[]string{"space", "up", "--database-urls", "x"}, []string{"space", "up", "--database-urls", "x"}},
	} {
		if got := withoutFlag(x.args, databaseFlagName); !slices.Equal(got, x.want) {
			t.Errorf("%q: %q, want %q", x.args, got, x.want)
		}
	}
}

func TestPrivateDatabaseIsARole(t *testing.T) {
	if got := roles(instance.Instance{Name: "nothere"}); !slices.Equal(got, instance.Roles()) {
		t.Errorf("roles %v", got)
	}
}
