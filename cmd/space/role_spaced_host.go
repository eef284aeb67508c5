//go:build !load

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/host"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/doctor"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/pager"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// kernelTimeout is how long the guest's kernel may take to come from the package archive, the first time.
const kernelTimeout = 10 * time.Minute

// kvmTimeout is how long it may take to find out whether hardware virtualisation works.
const kvmTimeout = 15 * time.Second

// hostRole is the only process on a node that touches machines, disks and namespaces. When it ends, the machines run on.
func hostRole() *cobra.Command {
	return roleCommand(instance.Host, "Run the node's spaced-host", func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error {
		cfg, err := hostConfig(ctx, i, c)
		if err != nil {
			return err
		}
		h, err := host.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := peer.Listen(i.Socket(instance.Host), i.UID(instance.Manager))
		if err != nil {
			return err
		}
		telemetry.Register(h.Figures())
		o.Ready(nil)
		return peer.Serve(ctx, l, h.Handler())
	})
}

// hostConfig mounts the volume and prepares what guests boot.
func hostConfig(ctx context.Context, i instance.Instance, c instance.Config) (host.Config, error) {
	out := host.Config{Instance: i, Helper: rootfs.Self(), DataDir: i.RoleDir(instance.Host), Insecure: c.InsecureRegistries, Allowed: c.AllowedRegistries, Version: version, MemoryOvercommit: c.MemoryOvercommit}
	var err error
	if out.Pool, err = poolConfig(c); err != nil {
		return out, err
	}
	out.Volume = disk.Volume{Path: i.Volume(), Image: i.VolumeImage(), Bytes: int64(c.VolumeGiB) << 30}
	if err := out.Volume.Ensure(ctx); err != nil {
		return out, err
	}
	self, err := os.Executable()
	if err != nil {
		return out, fmt.Errorf("find this program: %w", err)
	}
	guest := filepath.Join(filepath.Dir(self), guestProgram)
	prepare, cancel := context.WithTimeout(ctx, kernelTimeout)
	defer cancel()
	out.Kernel, err = kernel.Prepare(prepare, kernel.Options{
		Dir: i.KernelDir(), Guest: guest, Kind: kernel.Kind(c.Kernel),
		Progress: func(line string) { slog.Info("preparing the guest's kernel", "step", line) },
	})
	if err != nil {
		return out, err
	}
	slog.Info("guests have a kernel", "version", out.Kernel.Version, "tuned", out.Kernel.Tuned)
	running, err := host.RunningDriver(out.Volume)
	if err != nil {
		return out, err
	}
	out.Driver, err = chooseDriver(ctx, i, c, running, self)
	out.Paged = c.RestoredMemory == instance.MemoryPaged
	return out, err
}

// poolShare is the part of the node's memory that waiting machines take at most when the configuration doesn't say.
const poolShare = 10

func poolConfig(c instance.Config) (execution.PoolConfig, error) {
	if c.PoolSize != instance.PoolAuto {
		n, err := strconv.Atoi(string(c.PoolSize))
		return execution.PoolConfig{Size: n}, err
	}
	if c.PoolMemoryMiB > 0 {
		return execution.PoolConfig{Auto: true, MemoryBytes: int64(c.PoolMemoryMiB) << 20}, nil
	}
	f, err := meminfo.Read()
	return execution.PoolConfig{Auto: true, MemoryBytes: f.Total / poolShare}, err
}

// chooseDriver makes the driver that the operator forces, or that of the machines that run, which no other one would find again, or the best that works here.
func chooseDriver(ctx context.Context, i instance.Instance, c instance.Config, running, self string) (vmm.Driver, error) {
	name := cmp.Or(c.Driver, running)
	if name == "" {
		name = bestDriver(ctx, i, c)
	} else if c.Driver == "" {
		slog.Info("machines run already, and go on with their driver", "driver", name)
	}
	if keys := c.FirecrackerOnly(); name != firecracker.Name && len(keys) > 0 {
		return nil, fmt.Errorf("configuration: %s: only the firecracker driver does that, and machines would run with %s; 'space doctor' says why", strings.Join(keys, ", "), name)
	}
	switch name {
	case firecracker.Name:
		return newFirecracker(ctx, c, self)
	case qemu.Name:
		return qemu.New(ctx, qemu.Config{Acceleration: acceleration(ctx, i, c)})
	default:
		return nil, fmt.Errorf("configuration: driver %q is unknown: leave it empty, or %q, or %q", c.Driver, firecracker.Name, qemu.Name)
	}
}

// newFirecracker is the driver with what the configuration says. self is this program, which is the pager, too.
func newFirecracker(ctx context.Context, c instance.Config, self string) (vmm.Driver, error) {
	if err := pager.Available(); err != nil && c.RestoredMemory == instance.MemoryPaged {
		return nil, fmt.Errorf("configuration: restored_memory is %q: %w", c.RestoredMemory, err)
	}
	cpu, err := firecracker.ReadTemplate(c.CPUTemplate)
	if err != nil {
		return nil, err
	}
	return firecracker.New(ctx, firecracker.Config{
		Program: c.Firecracker, Jailer: c.Jailer, Pager: self, CPU: cpu, ReceiveBytes: c.NetworkReceiveBytes, SendBytes: c.NetworkSendBytes,
	})
}

// bestDriver is firecracker where a guest boots with it.
func bestDriver(ctx context.Context, i instance.Instance, c instance.Config) string {
	ctx, cancel := context.WithTimeout(ctx, kvmTimeout)
	defer cancel()
	version, err := doctor.Firecracker(ctx, doctor.Options{Instance: i, Config: c, CacheDir: i.RunDir()})
	if err != nil {
		slog.Info("machines run with QEMU", "why", err)
		return qemu.Name
	}
	slog.Info("machines run with Firecracker", "version", version)
	return firecracker.Name
}

// acceleration is what the operator forces, or hardware virtualisation if a guest boots with it.
func acceleration(ctx context.Context, i instance.Instance, c instance.Config) string {
	if c.Acceleration != "" {
		return c.Acceleration
	}
	ctx, cancel := context.WithTimeout(ctx, kvmTimeout)
	defer cancel()
	if err := doctor.KVM(ctx, doctor.Options{Instance: i, Config: c, CacheDir: i.RunDir()}); err != nil {
		slog.Info("no hardware virtualisation; machines are emulated", "why", err)
		return "tcg"
	}
	return "kvm"
}
