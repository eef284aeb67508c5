//go:build firecracker

package firecracker_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// TestBootTimes measures how long it takes from the beginning of a boot to the guest's answer, with each kind of kernel that is there. The figures are
// logged and not judged; docs/kernels.md has them.
func TestBootTimes(t *testing.T) {
	d, enclosure := driver(t, nil), jailed(t)
	for _, kind := range []kernel.Kind{kernel.Cloud, kernel.Tuned} {
		if there, err := kernel.Look(kernel.Options{Dir: vmmtest.KernelDir(t), Kind: kind}); err != nil || there.Version == "" {
			t.Logf("%s: none here (%v)", kind, err)
			continue
		}
		k := vmmtest.KernelOf(t, kind)
		images := map[string]string{"1 vCPU": k.For(1)}
		if k.For(2) != k.For(1) {
			images["1 vCPU, kernel for more"] = k.For(2)
		}
		for what, image := range images {
			var times []time.Duration
			for range ratioRounds {
				begun := time.Now()
				m, err := d.Boot(t.Context(), enclosure(t), vmm.Boot{Shape: ratioShape, Kernel: image, Initrd: k.Initrd})
				must(t, err)
				talk(t, m.DialGuest)
				times = append(times, time.Since(begun))
				end(m)
			}
			t.Logf("%s %s, %s: %s", kind, filepath.Base(filepath.Dir(image)), what, median(times).Round(time.Millisecond))
		}
	}
}
