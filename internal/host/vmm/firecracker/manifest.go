package firecracker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/cpu"
)

// machineType stands in manifests. It changes when this driver makes other machines: another transport, other kernel arguments that the host
// depends on.
const machineType = "kvm:mmio"

// manifest describes machines with these devices, as they are saved here.
func (d *Driver) manifest(s vmm.Shape, disk, network bool) vmm.Manifest {
	devices := []string{"vsock"}
	if disk {
		devices = append(devices, "block")
	}
	if network {
		devices = append(devices, "net")
	}
	return vmm.Manifest{
		Driver: Name, Version: d.version.String(), Machine: machineType, CPU: d.cpu, Devices: append(devices, "entropy"),
		VCPUs: s.VCPUs, MemoryBytes: s.MemoryBytes, TSCKHz: d.tscKHz,
	}
}

// describeCPU names the processor that guests see. Without a template it's this host's model. A template makes the models of one vendor alike, so
// it's the template and the vendor.
func describeCPU(template json.RawMessage) (string, error) {
	here, err := cpu.Host()
	if err != nil || template == nil {
		return here, err
	}
	if !json.Valid(template) {
		return "", errors.New("the CPU template isn't JSON")
	}
	vendor, _, _ := strings.Cut(here, "-")
	sum := sha256.Sum256(template)
	return vendor + ":" + hex.EncodeToString(sum[:]), nil
}
