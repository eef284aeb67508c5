//go:build vm

package qemu_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/host/vmm/selftest"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// accelerationVariable names the acceleration, if it isn't software emulation: see 'make test-kvm'.
const accelerationVariable = "SPACE_TEST_ACCELERATION"

func acceleration() string { return cmp.Or(os.Getenv(accelerationVariable), "tcg") }

func driver(t testing.TB) *qemu.Driver {
	t.Helper()
	d, err := qemu.New(t.Context(), qemu.Config{Acceleration: acceleration()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fixture(t *testing.T, k kernel.Files, enclosure func(*testing.T) vmm.Enclosure) vmmtest.Fixture {
	t.Helper()
	return vmmtest.Fixture{
		Driver: driver(t), Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 256 << 20}, Kernel: k.Vmlinux, SMP: k.SMP, Initrd: k.Initrd, Tuned: k.Tuned,
		Disk: vmmtest.Image(t), Virtual: true, Enclosure: enclosure,
	}
}

// In the jail a machine has a network device, too.
func TestConformanceInTheJail(t *testing.T) {
	vmmtest.Run(t, fixture(t, vmmtest.Kernel(t), jailed(t)))
}

// Without one QEMU's own arguments are all that counts, and the machine has no network.
func TestConformanceWithoutAJail(t *testing.T) {
	vmmtest.Run(t, fixture(t, vmmtest.Kernel(t), vmmtest.Enclosure))
}

// jailed makes real enclosures, of an instance that only this process has.
func jailed(t *testing.T) func(*testing.T) vmm.Enclosure {
	t.Helper()
	here := instancetest.Own(t) // a jail ends what it finds under its uids
	j, err := jail.New(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := j.Sweep(context.Background(), nil); err != nil || len(left) > 0 {
			t.Errorf("the machines left %v, %v", left, err)
		}
		j.Close()
		os.RemoveAll(here.RunDir())
		os.Remove(filepath.Dir(here.RunDir())) // unless other instances run
	})
	first, _ := here.VMUIDs()
	var made atomic.Int64
	return func(t *testing.T) vmm.Enclosure {
		t.Helper()
		s := jail.Spec{
			ID: vmmtest.NextID("exe_"), UID: first + int(made.Add(1)),
			Limits: cgroup.Limits{MemoryBytes: 512 << 20, CPUMillis: 2000, PIDs: 64},
		}
		e, err := j.Enclose(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := j.Remove(context.WithoutCancel(t.Context()), s); err != nil {
				t.Error(err)
			}
		})
		return e
	}
}

func TestSelfTest(t *testing.T) {
	k := vmmtest.Kernel(t)
	enclosure := jailed(t)
	test := selftest.Test{
		Driver: driver(t), Kernel: k.Vmlinux, Initrd: k.Initrd, Dir: t.TempDir(),
		Enclose: func(context.Context) (vmm.Enclosure, func() error, error) {
			return enclosure(t), func() error { return nil }, nil
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := test.Run(ctx); err != nil {
		t.Error(err)
	}
	test.Initrd = "/usr/bin/true" // no initramfs: the kernel panics, and the machine ends with it
	if err := test.Run(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a guest that can't boot: %v", err)
	}
}
