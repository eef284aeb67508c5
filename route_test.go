package space_test

import (
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
)

func anyRoute(t *rapid.T) space.Route {
	r := space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution),
		Epoch:     rapid.Uint64Min(1).Draw(t, "epoch"),
		Placement: space.Placement{Kind: space.PlacementNode, Node: rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "node")},
	}
	if rapid.Bool().Draw(t, "pod") {
		r.Placement.Kind, r.Placement.PodUID = space.PlacementPod, "uid-1"
	}
	return r
}

// TestRouteMatch changes each field alone: a route matches only itself.
func TestRouteMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRoute(t)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if err := r.Match(r); err != nil {
			t.Fatal(err)
		}
		stale := map[string]func(*space.Route){
			"execution": func(r *space.Route) { r.Execution = space.NewID(space.PrefixExecution) },
			"epoch":     func(r *space.Route) { r.Epoch++ },
			"kind":      func(r *space.Route) { r.Placement.Kind = "other" },
			"node":      func(r *space.Route) { r.Placement.Node += "x" },
			"pod":       func(r *space.Route) { r.Placement.PodUID += "x" },
		}
		for name, change := range stale {
			other := r
			change(&other)
			if got := space.CodeOf(r.Match(other)); got != space.CodeRouteStale {
				t.Fatalf("another %s: code %q, want %s", name, got, space.CodeRouteStale)
			}
		}
		foreign := r
		foreign.Sandbox = space.NewID(space.PrefixSandbox)
		if got := space.CodeOf(r.Match(foreign)); got != space.CodeRouteDenied {
			t.Fatalf("another sandbox: code %q, want %s", got, space.CodeRouteDenied)
		}
	})
}

// TestRouteCheckRefusesAbsent clears each field: absent never means any.
func TestRouteCheckRefusesAbsent(t *testing.T) {
	whole := space.Route{
		Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "n"},
	}
	for name, change := range map[string]func(*space.Route){
		"sandbox":          func(r *space.Route) { r.Sandbox = "" },
		"execution":        func(r *space.Route) { r.Execution = "" },
		"epoch":            func(r *space.Route) { r.Epoch = 0 },
		"kind":             func(r *space.Route) { r.Placement.Kind = "" },
		"node":             func(r *space.Route) { r.Placement.Node = "" },
		"pod without uid":  func(r *space.Route) { r.Placement.Kind = space.PlacementPod },
		"node with a uid":  func(r *space.Route) { r.Placement.PodUID = "u" },
		"id of other kind": func(r *space.Route) { r.Sandbox = r.Execution },
	} {
		r := whole
		change(&r)
		if r.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
