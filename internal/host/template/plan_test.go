package template

import (
	"testing"

	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
)

// TestKeysTellLayersApart: what was made of one base or above one step is never taken for what comes of another.
func TestKeysTellLayersApart(t *testing.T) {
	digest := "first"
	b := builder{
		cfg: &Config{Kernel: kernel.Files{Digest: "kernel"}}, size: rootfs.Size{DiskBytes: 1 << 30},
		borrow: func(string) (Snapshot, Defaults, func(), error) {
			return Snapshot{DiskDigest: digest}, Defaults{}, func() {}, nil
		},
	}
	keys := func() (all []string) {
		t.Helper()
		plan, err := b.plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plan {
			all = append(all, p.key)
		}
		return all
	}
	b.order = Order{Base: "tpl_base", Steps: []Step{{Run: "make"}, {Set: &Defaults{User: "user"}}, {Run: "make"}}}
	was := keys()
	seen := map[string]int{}
	for n, k := range was {
		if before, ok := seen[k]; ok {
			t.Errorf("steps %d and %d have one key", before, n)
		}
		seen[k] = n
	}
	for what, change := range map[string]func() (back func()){
		"another base": func() func() { digest = "second"; return func() { digest = "first" } },
		"another size": func() func() { b.size.DiskBytes++; return func() { b.size.DiskBytes-- } },
		"another step": func() func() { b.order.Steps[0].Run = "make all"; return func() { b.order.Steps[0].Run = "make" } },
		"another user": func() func() {
			b.order.Steps[1].Set.User = "root"
			return func() { b.order.Steps[1].Set.User = "user" }
		},
		"another kernel": func() func() { b.cfg.Kernel.Digest = "newer"; return func() { b.cfg.Kernel.Digest = "kernel" } },
	} {
		back := change()
		if now := keys(); now[len(now)-1] == was[len(was)-1] {
			t.Errorf("%s: the last layer has the same key", what)
		}
		back()
	}
	if again := keys(); again[len(again)-1] != was[len(was)-1] {
		t.Error("the same plan has another key")
	}
}
