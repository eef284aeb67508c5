package qemu

import "github.com/space-platform/space/internal/host/vmm"

// manifest describes machines of a line, as they are saved here.
func (d *Driver) manifest(l Line) vmm.Manifest {
	var devices []string
	for _, dev := range l.devices() {
		devices = append(devices, dev.name)
	}
	return vmm.Manifest{
		Driver: Name, Version: d.version.String(), Machine: l.Acceleration + ":" + l.machine(), CPU: d.cpu(l), Devices: devices,
		VCPUs: l.Shape.VCPUs, MemoryBytes: l.Shape.MemoryBytes, TSCKHz: d.tscKHz,
	}
}

// cpu names the processor that a guest sees: with hardware virtualisation it's the host's.
func (d *Driver) cpu(l Line) string {
	if l.Acceleration == "kvm" {
		return l.cpu() + ":" + d.hostCPU
	}
	return l.cpu()
}
