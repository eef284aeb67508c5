package template

import (
	"sync/atomic"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/upload"
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
		// A step runs what its project says, on a machine of its size: neither serves another project or shape.
		"another project": func() func() { b.order.Project = "prj_b"; return func() { b.order.Project = "" } },
		"more memory":     func() func() { b.size.MemoryBytes++; return func() { b.size.MemoryBytes-- } },
		"more CPUs":       func() func() { b.size.VCPUs++; return func() { b.size.VCPUs-- } },
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

// heldUploads has every upload, and counts how many are in use.
type heldUploads struct{ held atomic.Int32 }

func (u *heldUploads) Use(string) (upload.File, func(), error) {
	u.held.Add(1)
	return upload.File{SHA256: "digest"}, func() { u.held.Add(-1) }, nil
}

// TestUploadsStayWhatTheyAre: the keys of layers are made of an upload's digest when a build begins, and its step may come much later. Whoever
// could replace the bytes in between would have a layer kept under the digest of others.
func TestUploadsStayWhatTheyAre(t *testing.T) {
	r, u := newRig(t), &heldUploads{}
	booted := int32(0)
	r.uploads, r.onBoot = u, func() { booted = u.held.Load() }
	s := r.open(rootfs.Self())
	o := mini(space.NewID(space.PrefixTemplate))
	o.Steps = []Step{{Run: "sleep 60"}, {Copy: &Copy{Upload: space.NewID(space.PrefixUpload), To: "/opt"}}}
	if err := s.Ensure(o); err != nil {
		t.Fatal(err)
	}
	r.await(s, Failed) // nothing boots here
	if booted != 1 || u.held.Load() != 0 {
		t.Errorf("%d uploads were in use while the first step ran, and %d after the build: want 1 and 0", booted, u.held.Load())
	}
}
