package qemu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/host/vmm"
)

// PortName is what the guest finds its end of the link by, in /sys/class/virtio-ports/*/name.
const PortName = "space.link"

// translationMiB is the memory for translated code under software emulation. QEMU's own choice is a gigabyte for each machine, which never gives any back. With 32 a busy guest
// (Python's compiler, hashes, archives) is as quick as with 128, and QEMU takes 53 MiB instead of 165 (2026-12-01).
const translationMiB = 32

// Line is a QEMU command line, before it's text. Paths are those that QEMU sees, descriptors those that it inherits.
type Line struct {
	Name         string // of the machine, for ps
	Acceleration string // kvm or tcg
	Shape        vmm.Shape
	Memory       string // file of the guest's memory
	ReadOnly     bool   // whether this QEMU maps a loaded machine's memory without writing to the file (8.2)
	Disk         string // "" for none
	MAC          string // of the network device; "" for none
	Monitor      int    // descriptor of the socket for the monitor protocol
	Link         int    // descriptor of the socket for the link to the guest
	Tap          int    // descriptor of the tap device, if there is a MAC

	// A cold start:
	Kernel string
	Initrd string
	Append string // the kernel's arguments

	// Or a load, if Kernel is "":
	State int // descriptor of the device state
}

// Args returns the arguments. There is never a balloon, virtio-mem or free page reporting among them: a clone that gives pages
// back punches holes into the memory file that it shares with its template.
func (l Line) Args() []string {
	args := []string{
		"-name", l.Name,
		"-M", l.machine(),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", l.accel(),
		"-cpu", l.cpu(),
		"-smp", strconv.Itoa(l.Shape.VCPUs),
		"-m", fmt.Sprintf("%dB", l.Shape.MemoryBytes),
		"-object", l.memory(),
		"-global", "virtio-mmio.force-legacy=false",
		"-global", "migration.send-configuration=off",
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d,server=on,wait=off", l.Monitor),
		"-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=link,fd=%d,server=on,wait=off", l.Link),
	}
	for _, d := range l.devices() {
		args = append(args, d.args...)
	}
	args = append(args, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	return append(args, l.start()...)
}

// machine is the machine type with its flags. Debian's cloud kernel finds virtio-mmio devices through ACPI only, and ACPI without
// ioapic2=off hangs at the timer. The last flag leaves out what a saved state from xen-save-devices-state doesn't have.
func (l Line) machine() string {
	return "microvm,acpi=on,ioapic2=off,rtc=on,isa-serial=off,memory-backend=ram,suppress-vmdesc=on"
}

func (l Line) accel() string {
	if l.Acceleration == "kvm" {
		return "kvm"
	}
	return fmt.Sprintf("tcg,tb-size=%d", translationMiB)
}

// cpu is x86-64-v2 under emulation: wheels need SSE4, and AVX2 is slower there than doing without.
func (l Line) cpu() string {
	if l.Acceleration == "kvm" {
		return "host"
	}
	return "Nehalem-v1"
}

// memory keeps the guest's memory out of core dumps and of page merging.
func (l Line) memory() string {
	s := fmt.Sprintf("memory-backend-file,id=ram,size=%d,mem-path=%s,merge=off,dump=off", l.Shape.MemoryBytes, escape(l.Memory))
	switch {
	case l.Kernel != "":
		return s + ",share=on"
	case l.ReadOnly:
		return s + ",share=off,readonly=on,rom=off"
	default:
		return s + ",share=off"
	}
}

// device is one virtio device. Their order decides their slots, which a snapshot fixes.
type device struct {
	name string
	args []string
}

func (l Line) devices() []device {
	list := []device{{"virtio-serial", []string{
		"-device", "virtio-serial-device,id=serial,max_ports=2",
		"-device", "virtserialport,bus=serial.0,chardev=link,nr=1,name=" + PortName,
	}}}
	if l.Disk != "" {
		// A full host volume is an I/O error in the guest: QEMU's own choice would stop the machine with nobody told.
		list = append(list, device{"virtio-blk", []string{
			"-drive", "id=disk,if=none,format=raw,discard=unmap,werror=report,rerror=report,file=" + escape(l.Disk),
			"-device", "virtio-blk-device,drive=disk",
		}})
	}
	if l.MAC != "" {
		list = append(list, device{"virtio-net", []string{
			"-netdev", fmt.Sprintf("tap,id=net,fd=%d", l.Tap),
			"-device", "virtio-net-device,netdev=net,mac=" + l.MAC,
		}})
	}
	return append(list, device{"virtio-rng", []string{
		"-object", "rng-builtin,id=rng",
		"-device", "virtio-rng-device,rng=rng",
	}})
}

func (l Line) start() []string {
	if l.Kernel == "" {
		return []string{"-incoming", fmt.Sprintf("fd:%d", l.State)}
	}
	return []string{"-kernel", l.Kernel, "-initrd", l.Initrd, "-append", l.Append}
}

// kernelArgs are what a guest kernel gets to hear. It's told the counter's speed, since calibrating fails at random on a busy host, and to end
// the machine when it panics. Under emulation its defences against the processor's side channels guard nothing and cost much.
func kernelArgs(acceleration string, tscKHz int64, more []string) string {
	args := []string{
		"quiet", "panic=-1", "reboot=t", "cryptomgr.notests", "dummy.numdummies=0",
		fmt.Sprintf("tsc_early_khz=%d", tscKHz), "tsc=reliable", "no_timer_check",
	}
	if acceleration != "kvm" {
		args = append(args, "mitigations=off")
	}
	return strings.Join(append(args, more...), " ")
}

// escape writes a path as the value of an option, in which a comma would begin the next one.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }
