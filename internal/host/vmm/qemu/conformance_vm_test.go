//go:build vm

package qemu_test

import (
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// TestConformance runs QEMU without a jail, which has its own tests.
func TestConformance(t *testing.T) {
	d, err := qemu.New(t.Context(), qemu.Config{Acceleration: "tcg"})
	if err != nil {
		t.Fatal(err)
	}
	k := vmmtest.Kernel(t)
	vmmtest.Run(t, vmmtest.Fixture{
		Driver: d, Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 256 << 20},
		Kernel: k.Vmlinux, Initrd: k.Initrd, Disk: vmmtest.Image(t), KeepsState: true, Enclosure: vmmtest.Enclosure,
	})
}
