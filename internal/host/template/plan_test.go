package template

import (
	"sync/atomic"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/upload"
)

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

// TestLayersOfOtherProjectsAreNotUsed: a step runs what its project says, on a machine of its size. Neither serves another project.
func TestLayersOfOtherProjectsAreNotUsed(t *testing.T) {
	keys := map[string]string{}
	size := rootfs.Size{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}
	for name, change := range map[string]func(*Order, *rootfs.Size){
		"the same":    func(*Order, *rootfs.Size) {},
		"project":     func(o *Order, _ *rootfs.Size) { o.Project = "prj_b" },
		"memory":      func(_ *Order, s *rootfs.Size) { s.MemoryBytes *= 2 },
		"virtual CPU": func(_ *Order, s *rootfs.Size) { s.VCPUs++ },
	} {
		o, z := mini(space.NewID(space.PrefixTemplate)), size
		o.Project, o.Steps = "prj_a", []Step{{Run: "true"}}
		change(&o, &z)
		b := &builder{cfg: &Config{Kernel: kernel.Files{Digest: "k"}, Uploads: noUploads{}}, order: o, size: z}
		plan, err := b.plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := keys[plan[1].key]; ok {
			t.Errorf("%q has the layer of %q", name, other)
		}
		keys[plan[1].key] = name
	}
}
