// Package qemu runs machines with QEMU's microvm machine type, under KVM or software emulation.
//
// # What it does by hand
//
// A snapshot is device state, memory file and disk, each in a file of its own. The device state is what the command
// xen-save-devices-state writes (it's in every QEMU and has nothing to do with Xen) and what -incoming reads back. Memory is never written by
// QEMU: a booted machine has it in a file already, mapped shared; a loaded machine maps its file privately, and what it
// changed since is read from outside, page by page (see save.go).
//
// # Least privilege
//
// QEMU gets open files instead of permissions wherever it can: the tap device, the two sockets, the device state on both ways.
// It can make no file, open no device and no network, and start no process.
//
// # What isn't done
//
// Emulation is no boundary between tenants, which Capabilities says. A balloon is never offered (see Line.Args).
package qemu

import (
	"context"
	"fmt"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/cpu"
	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/host/vmm/tsc"
	"github.com/space-platform/space/internal/proc"
)

// Name is the driver's word in manifests, handles and the API.
const Name = "qemu"

// Program is where Debian installs QEMU, on the host and so in an enclosure.
const Program = "/usr/bin/qemu-system-x86_64"

// emulationFactor is how much slower guest code is under emulation, about.
const emulationFactor = 10

// maxHeld is the memory in bytes that all saves together may hold of what they have yet to write: a busy sandbox's 200 MiB and a few of the
// usual 30. Beyond it pages are written while their machine stands still.
const maxHeld = 384 << 20

// Config is what the driver can't find out cheaply by itself.
type Config struct {
	Acceleration string // "kvm" or "tcg": whether KVM really works is for the doctor to find out
	Program      string // "" for Program
}

// Driver implements vmm.Driver.
type Driver struct {
	config  Config
	version version
	tscKHz  int64
	hostCPU string
	bootID  string
	held    *pages.Buffer
}

// What a machine takes beside its guest's memory, at most. QEMU itself has some 20 MB; an emulated machine whose guest has been busy has had 53 MiB, translated code and tables for two
// processors among them.
const (
	overheadBytes     = 48 << 20
	emulationOverhead = 96 << 20
)

var _ vmm.Driver = (*Driver)(nil)

// New looks at QEMU and the host's processor. It takes about 70 ms.
func New(ctx context.Context, c Config) (*Driver, error) {
	if c.Program == "" {
		c.Program = Program
	}
	if c.Acceleration != "kvm" && c.Acceleration != "tcg" {
		return nil, fmt.Errorf("make the qemu driver: acceleration %q: want kvm or tcg", c.Acceleration)
	}
	d := &Driver{config: c, held: pages.NewBuffer(maxHeld)}
	if err := d.look(ctx); err != nil {
		return nil, fmt.Errorf("make the qemu driver: %w", err)
	}
	return d, nil
}

func (d *Driver) look(ctx context.Context) (err error) {
	if d.version, err = readVersion(ctx, d.config.Program); err != nil {
		return err
	}
	if d.tscKHz, err = tsc.KHz(); err != nil {
		return err
	}
	if d.hostCPU, err = cpu.Host(); err != nil {
		return err
	}
	d.bootID, err = proc.BootID()
	return err
}

// Name is "qemu".
func (d *Driver) Name() string { return Name }

// Capabilities says that QEMU before 8.2 needs a memory file for each machine: it opens the file for writing even to map it privately, so one
// file for all would be open to each guest's VMM. A sealed memfd can be opened so and yet not be changed, so it may be one for all.
func (d *Driver) Capabilities() vmm.Capabilities {
	c := vmm.Capabilities{
		Acceleration: d.config.Acceleration, TenantBoundary: true, CPUFactor: 1,
		PauseKeepsLink: true, PowerOff: true, SharedMemory: d.readOnlyMemory(), SealedMemory: true, Version: d.version.String(), OverheadBytes: overheadBytes,
	}
	if c.Acceleration == "tcg" {
		c.TenantBoundary, c.CPUFactor, c.OverheadBytes = false, emulationFactor, emulationOverhead
	}
	return c
}

func (d *Driver) readOnlyMemory() bool { return d.version.atLeast(8, 2) }
