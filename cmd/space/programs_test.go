package main

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

func TestEachRoleRunsAsItsOwnUserAndKnowsNoMoreThanItMust(t *testing.T) {
	t.Setenv("https_proxy", "http://proxy.invalid")
	t.Setenv("SPACE_API_KEY", "space_secret")
	i := instance.Instance{Name: "demo", Slot: 3}
	uids := map[int]string{}
	for _, p := range programs(i, "/bin/space") {
		if other, taken := uids[p.UID]; taken {
			t.Errorf("%s and %s have the same uid %d", p.Name, other, p.UID)
		}
		uids[p.UID] = p.Name
		if (p.UID == 0) != (p.Name == string(instance.Host)) {
			t.Errorf("%s runs as uid %d", p.Name, p.UID)
		}
		if !slices.Equal(p.Args, []string{p.Name, "--instance", "demo"}) || !slices.Equal(p.Groups, []int{i.GID()}) {
			t.Errorf("%s is called with %v in groups %v", p.Name, p.Args, p.Groups)
		}
		env := strings.Join(p.Env, " ")
		if strings.Contains(env, "proxy") != (p.Name == string(instance.Host)) || strings.Contains(env, "space_secret") {
			t.Errorf("the environment of %s is %s", p.Name, env)
		}
	}
}

func TestPostgreSQLIsAskedForAFastEndAndWaitedFor(t *testing.T) {
	p := programs(instance.Instance{Name: "demo"}, "/bin/space")[0]
	if p.Name != string(instance.Postgres) || p.Stop != unix.SIGINT || p.Socket == "" {
		t.Errorf("the first program is %+v", p)
	}
}

func TestRoleThatKeepsDyingIsNamed(t *testing.T) {
	i := instance.Instance{Name: "nothere"}
	if got := keepsDying(i, restarts(i)); got != "" {
		t.Errorf("nothing runs, and %s keeps dying", got)
	}
}
