//go:build vm

package qemu_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// benchLimit bounds one machine's life.
const benchLimit = time.Minute

// BenchmarkKernels compares the kernels: from the call that starts QEMU until the guest has acknowledged, cold (boot) and from a
// snapshot of the same (load), medians; and what an idle machine takes. docs/kernels.md has the figures. The tuned kernels must have been built:
//
//	go test -tags vm -run '^$' -bench Kernels -benchtime 20x ./internal/host/vmm/qemu
func BenchmarkKernels(b *testing.B) {
	disk := vmmtest.Image(b)
	cloud, tuned := vmmtest.KernelOf(b, kernel.Cloud), vmmtest.KernelOf(b, kernel.Tuned)
	for _, c := range []struct {
		name  string
		files kernel.Files
		image string
		vcpus int
	}{
		{"cloud", cloud, cloud.For(1), 1},
		{"up", tuned, tuned.For(1), 1},
		{"smp", tuned, tuned.For(2), 1},
		{"cloud-2", cloud, cloud.For(2), 2},
		{"smp-2", tuned, tuned.For(2), 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := bench{b: b, driver: driver(b), kernel: c.image, initrd: c.files.Initrd, disk: disk, shape: vmm.Shape{VCPUs: c.vcpus, MemoryBytes: 256 << 20}}
			k.run()
		})
	}
}

type bench struct {
	b                    *testing.B
	driver               vmm.Driver
	kernel, initrd, disk string
	shape                vmm.Shape
}

func (k bench) run() {
	var boots, loads, booted, loaded []float64
	for k.b.Loop() {
		dir := k.b.TempDir()
		memory, state := filepath.Join(dir, "memory"), filepath.Join(dir, "state")
		began := time.Now()
		m := k.boot(dir, memory)
		boots = append(boots, milliseconds(k.greet(m, 1), began))
		booted = append(booted, k.pss(m))
		manifest := k.save(m, state)

		began = time.Now()
		m = k.load(dir, vmm.Load{Shape: k.shape, State: state, Memory: memory, Disk: filepath.Join(dir, "disk"), Manifest: manifest})
		loads = append(loads, milliseconds(k.greet(m, 2), began))
		loaded = append(loaded, k.pss(m))
		k.end(m)
	}
	for unit, all := range map[string][]float64{"boot-ms": boots, "load-ms": loads, "booted-MiB": booted, "loaded-MiB": loaded} {
		slices.Sort(all)
		k.b.ReportMetric(all[len(all)/2], unit)
	}
	k.b.ReportMetric(0, "ns/op")
}

func milliseconds(until, since time.Time) float64 {
	return float64(until.Sub(since)) / float64(time.Millisecond)
}

func (k bench) within() context.Context {
	ctx, cancel := context.WithTimeout(k.b.Context(), benchLimit)
	k.b.Cleanup(cancel)
	return ctx
}

func (k bench) must(err error) {
	k.b.Helper()
	if err != nil {
		k.b.Fatal(err)
	}
}

func (k bench) enclosure() vmm.Enclosure {
	return vmm.Enclosure{ID: vmmtest.NextID("exe_"), Dir: k.b.TempDir(), Starter: vmmtest.NewStarter(k.b)}
}

func (k bench) boot(dir, memory string) vmm.Machine {
	k.must(vmmtest.Clone(k.disk, filepath.Join(dir, "disk"), 0))
	k.must(os.WriteFile(memory, nil, 0o600))
	k.must(os.Truncate(memory, k.shape.MemoryBytes))
	m, err := k.driver.Boot(k.within(), k.enclosure(), vmm.Boot{
		Shape: k.shape, Kernel: k.kernel, Initrd: k.initrd, Disk: filepath.Join(dir, "disk"), Memory: memory,
	})
	k.must(err)
	return m
}

func (k bench) load(dir string, l vmm.Load) vmm.Machine {
	m, err := k.driver.Load(k.within(), k.enclosure(), l)
	k.must(err)
	return m
}

// greet makes the guest answer, and returns when it had.
func (k bench) greet(m vmm.Machine, epoch uint64) time.Time {
	l, err := machine.Greet(k.within(), m, link.Sync{Execution: vmmtest.NextID("exe_"), Epoch: epoch, Adopt: true})
	k.must(err)
	defer l.Close()
	return time.Now()
}

func (k bench) save(m vmm.Machine, to string) vmm.Manifest {
	k.must(m.Pause(k.within()))
	state, err := os.Create(to)
	k.must(err)
	defer state.Close()
	manifest, err := vmmtest.Save(k.within(), m, state, nil)
	k.must(err)
	k.end(m)
	return manifest
}

func (k bench) end(m vmm.Machine) {
	k.must(m.Kill(k.within()))
	k.must(m.Close())
}

// pss is a machine's share of the host's memory in MiB, with its guest's.
func (k bench) pss(m vmm.Machine) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", m.Handle().PID))
	k.must(err)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var kib float64
		if n, _ := fmt.Sscanf(lines.Text(), "Pss: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	k.b.Fatal("the kernel doesn't tell a process's share of memory")
	return 0
}
