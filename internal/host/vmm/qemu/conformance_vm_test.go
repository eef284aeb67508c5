//go:build vm

package qemu_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/host/vmm/selftest"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// What hack/test-kvm tells these tests.
const (
	accelerationVariable = "SPACE_TEST_ACCELERATION" // "" for software emulation
	factorVariable       = "SPACE_TEST_CPU_FACTOR"   // how much slower than it says a guest is, because the host itself is emulated; "" for not at all
	argsVariable         = "SPACE_TEST_KERNEL_ARGS"  // more of the guests' kernel arguments
)

func acceleration() string { return cmp.Or(os.Getenv(accelerationVariable), "tcg") }

// slower is a driver on a host that is emulated itself, which the driver can't know.
type slower struct {
	vmm.Driver
	factor float64
}

func (s slower) Capabilities() vmm.Capabilities {
	c := s.Driver.Capabilities()
	c.CPUFactor *= s.factor
	return c
}

// patient is the driver with the patience that its host needs.
func patient(t *testing.T) vmm.Driver {
	t.Helper()
	text := os.Getenv(factorVariable)
	if text == "" {
		return driver(t)
	}
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil || factor < 1 {
		t.Fatalf("%s=%q: want a number from 1 on", factorVariable, text)
	}
	return slower{driver(t), factor}
}

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
		Driver: patient(t), Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 256 << 20}, Args: strings.Fields(os.Getenv(argsVariable)), Kernel: k.Vmlinux, SMP: k.SMP, Initrd: k.Initrd, Tuned: k.Tuned,
		Disk: vmmtest.Image(t), Virtual: true, Enclosure: enclosure,
	}
}

// In the jail a machine has a network device, too.
func TestConformanceInTheJail(t *testing.T) {
	t.Parallel()
	vmmtest.Run(t, fixture(t, vmmtest.Kernel(t), jailed(t)))
}

// Without one QEMU's own arguments are all that counts, and the machine has no network.
func TestConformanceWithoutAJail(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	k := vmmtest.Kernel(t)
	enclosure := jailed(t)
	test := selftest.Test{
		Driver: driver(t), Kernel: k.Vmlinux, Initrd: k.Initrd, Args: strings.Fields(os.Getenv(argsVariable)), Dir: t.TempDir(),
		Enclose: func(context.Context) (vmm.Enclosure, func() error, error) {
			return enclosure(t), func() error { return nil }, nil
		},
	}
	const patience = 10 * time.Second // where nothing is emulated
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(patient(t).Capabilities().CPUFactor*float64(patience)))
	defer cancel()
	if err := test.Run(ctx); err != nil {
		t.Error(err)
	}
	test.Initrd = "/usr/bin/true" // no initramfs: the kernel panics, and the machine ends with it
	if err := test.Run(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a guest that can't boot: %v", err)
	}
}

// TestLastWords boots a kernel that panics, since it has no initramfs: QEMU ends with it. Both QEMU's end and the kernel's reason are told, wherever the memory is.
func TestLastWords(t *testing.T) {
	t.Parallel()
	k := vmmtest.Kernel(t)
	for name, inFile := range map[string]bool{"memory in a file": true, "memory of its own": false} {
		t.Run(name, func(t *testing.T) {
			b := vmm.Boot{Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 256 << 20}, Kernel: k.Vmlinux, Initrd: "/usr/bin/true", Args: strings.Fields(os.Getenv(argsVariable))}
			if inFile {
				b.Memory = filepath.Join(t.TempDir(), "memory")
				if err := errors.Join(os.WriteFile(b.Memory, nil, 0o600), os.Truncate(b.Memory, b.Shape.MemoryBytes)); err != nil {
					t.Fatal(err)
				}
			}
			m, err := driver(t).Boot(t.Context(), vmmtest.Enclosure(t), b)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(patient(t).Capabilities().CPUFactor*10)*time.Second)
			defer cancel()
			if _, err := machine.Meet(ctx, m, machine.Boot, link.Sync{Execution: "exe_x", Epoch: 1, Adopt: true}); !errors.Is(err, machine.ErrUnmet) || !errors.Is(err, vmm.ErrGone) {
				t.Errorf("greeting it: %v", err)
			}
			words := m.LastWords()
			for _, want := range []string{"the VMM", "Kernel panic"} {
				if !strings.Contains(words, want) {
					t.Errorf("it doesn't say %q: %s", want, words)
				}
			}
		})
	}
}
