// Package firecracker runs machines with Firecracker, under KVM. It's the driver for production.
//
// # What runs
//
// Firecracker's own jailer is started in the enclosure (see vmm.Command.Jailer): it's born in the enclosure's cgroup and network namespace, is
// the first process of a pid namespace, makes a root directory of its own in memory, becomes the enclosure's user and executes Firecracker. So two
// independent programs confine a guest's VMM, and nothing of a machine is left on the host when its process is gone.
//
// Firecracker is told what to do over its API. It makes its sockets itself, in its root directory, where they are reached without following
// a link (monitor.DialWithin).
//
// # Snapshots
//
// A loaded machine maps the snapshot's memory file privately and read-only, so one file serves all its clones. A saved one writes what has
// changed to its place in a copy of that file, which a reflink makes for nothing: the result is always a full memory file. The
// files are lent to Firecracker for that time only (vmm.Starter.Lend).
//
// Or its memory comes page by page from a pager (package pager), a second process in the enclosure that lives as long as Firecracker does.
//
// # What isn't done
//
// No balloon, memory hot-plug or page reporting, which would punch holes into the shared file. No network or metadata of Firecracker's own.
package firecracker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/pager"
	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/host/vmm/tsc"
	"github.com/space-platform/space/internal/proc"
)

// Name is the driver's word in manifests, handles and the API.
const Name = "firecracker"

// maxHeld is the memory in bytes that all saves together may hold of what they have yet to write.
const maxHeld = 384 << 20

// Config says which Firecracker, and how.
type Config struct {
	Program string // path of Firecracker
	Jailer  string // path of its jailer, of the same version
	// Pager is the path of a program that is a pager when it's told to (pager.Main), linked statically; "" for none: machines then map their memory.
	Pager string
	// CPU is a custom CPU template: which features of the processor guests see. Nothing: all that Firecracker passes on. Snapshots can then only be
	// loaded on the same model of processor.
	CPU json.RawMessage
	// ReceiveBytes and SendBytes are how many bytes a machine's network may bring in and take out in a second. 0: no limit.
	ReceiveBytes, SendBytes int64
	// Args are more of the guest kernel's arguments, after the driver's own and before a machine's.
	Args []string
	// CPUFactor goes into Capabilities: more than 1, which is what 0 means, where KVM itself runs in an emulated machine.
	CPUFactor float64
	// Trace is told of each call to Firecracker and its answer; nil for nobody.
	Trace func(api.Exchange)
}

// Driver implements vmm.Driver.
type Driver struct {
	config  Config
	version version
	cpu     string // for manifests
	tscKHz  int64
	bootID  string
	paging  error // why memory can't come page by page
	held    *pages.Buffer
}

var _ vmm.Driver = (*Driver)(nil)

// New looks at Firecracker and the host's processor. Whether a guest runs is for the doctor and the self-test to find out.
func New(ctx context.Context, c Config) (*Driver, error) {
	d := &Driver{config: c, held: pages.NewBuffer(maxHeld)}
	if err := d.look(ctx); err != nil {
		return nil, fmt.Errorf("make the firecracker driver: %w", err)
	}
	return d, nil
}

func (d *Driver) look(ctx context.Context) (err error) {
	if d.config.Program == "" || d.config.Jailer == "" {
		return errors.New("the paths of firecracker and of its jailer are needed")
	}
	for _, path := range []*string{&d.config.Program, &d.config.Jailer, &d.config.Pager} { // a link may lead to another release tomorrow
		if *path == "" {
			continue
		}
		if *path, err = filepath.EvalSymlinks(*path); err != nil {
			return err
		}
	}
	d.paging = pager.Available()
	if d.version, err = pair(ctx, d.config.Program, d.config.Jailer); err != nil {
		return err
	}
	if d.tscKHz, err = tsc.KHz(); err != nil {
		return err
	}
	if d.cpu, err = describeCPU(d.config.CPU); err != nil {
		return err
	}
	d.bootID, err = proc.BootID()
	return err
}

// overheadBytes is what a machine takes beside its guest's memory, at most: 11 to 14 MB were measured.
const overheadBytes = 16 << 20

// Name is "firecracker".
func (d *Driver) Name() string { return Name }

// Capabilities says that a guest runs at the host's speed and is kept apart from others, that one memory file serves all machines, and that a
// guest can't switch its machine off, which has no power button.
func (d *Driver) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{
		Acceleration: "kvm", TenantBoundary: true, CPUFactor: cmp.Or(d.config.CPUFactor, 1), PauseKeepsLink: d.version.release != forgetsVsock,
		SharedMemory: true, PagedMemory: d.config.Pager != "" && d.paging == nil, Version: d.version.String(), OverheadBytes: overheadBytes,
	}
}
