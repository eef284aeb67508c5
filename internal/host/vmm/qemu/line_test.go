package qemu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/host/vmm"
)

func line() Line {
	return Line{
		Name: "exe_a", Acceleration: "tcg", Shape: vmm.Shape{VCPUs: 2, MemoryBytes: 256 << 20},
		Memory: "/vm/memory", Disk: "/vm/disk", MAC: "06:00:ac:10:00:02", Monitor: 3, Link: 4, Tap: 5, State: 6,
	}
}

// value returns what follows an option; every one of them if it's there more than once.
func values(args []string, option string) []string {
	var out []string
	for i, a := range args {
		if a == option && i+1 < len(args) {
			out = append(out, args[i+1])
		}
	}
	return out
}

func TestALoadMapsMemoryPrivately(t *testing.T) {
	l := line()
	objects := values(l.Args(), "-object")
	if !strings.HasSuffix(objects[0], ",share=off") {
		t.Errorf("memory of a load: %s", objects[0])
	}
	if got := values(l.Args(), "-incoming"); !slices.Equal(got, []string{"fd:6"}) {
		t.Errorf("-incoming %v", got)
	}
	l.ReadOnly = true
	if m := values(l.Args(), "-object")[0]; !strings.HasSuffix(m, ",share=off,readonly=on,rom=off") {
		t.Errorf("memory of a load with a newer QEMU: %s", m)
	}
	if len(values(l.Args(), "-kernel")) > 0 {
		t.Error("a load has a kernel")
	}
}

func TestABootSharesItsMemoryWithItsFile(t *testing.T) {
	l := line()
	l.ReadOnly, l.Kernel, l.Initrd, l.Append = true, "/vm/kernel", "/vm/initrd", "quiet"
	if m := values(l.Args(), "-object")[0]; !strings.HasSuffix(m, ",share=on") {
		t.Errorf("memory of a boot: %s", m)
	}
	if got := values(l.Args(), "-incoming"); got != nil {
		t.Errorf("a boot has -incoming %v", got)
	}
}

// A device that gives memory back would punch holes into a file that other machines map.
func TestNoDeviceGivesMemoryBack(t *testing.T) {
	for _, a := range line().Args() {
		for _, word := range []string{"balloon", "virtio-mem", "free-page"} {
			if strings.Contains(a, word) {
				t.Errorf("argument %q", a)
			}
		}
	}
}

func TestEveryMachineIsConfined(t *testing.T) {
	args := line().Args()
	if got := values(args, "-sandbox"); !slices.Equal(got, []string{"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"}) {
		t.Errorf("-sandbox %v", got)
	}
	if got := values(args, "-accel"); !slices.Equal(got, []string{"tcg,tb-size=32"}) {
		t.Errorf("-accel %v: without tb-size a machine may use a gigabyte for translated code", got)
	}
}

func TestPathsCannotAddOptions(t *testing.T) {
	l := line()
	l.Disk, l.Memory = "/a,readonly=on", "/b,share=on"
	if d := values(l.Args(), "-drive")[0]; !strings.HasSuffix(d, "file=/a,,readonly=on") {
		t.Errorf("-drive %s", d)
	}
	if m := values(l.Args(), "-object")[0]; !strings.Contains(m, "mem-path=/b,,share=on,merge") {
		t.Errorf("-object %s", m)
	}
}

func TestKernelArguments(t *testing.T) {
	got := kernelArgs("tcg", 2_600_000, []string{"space.x=1"})
	want := "quiet panic=-1 reboot=t cryptomgr.notests dummy.numdummies=0 tsc_early_khz=2600000 tsc=reliable no_timer_check mitigations=off space.x=1"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if kvm := kernelArgs("kvm", 1, nil); strings.Contains(kvm, "mitigations") {
		t.Errorf("with hardware virtualisation a guest needs its defences: %s", kvm)
	}
}

// TestTranslatedCodeFitsIntoTheOverhead beside what QEMU takes without any.
func TestTranslatedCodeFitsIntoTheOverhead(t *testing.T) {
	if emulationOverhead < overheadBytes+translationMiB<<20 {
		t.Errorf("a machine is promised %d MiB beside its guest's memory, and may use %d for translated code alone", emulationOverhead>>20, translationMiB)
	}
}
