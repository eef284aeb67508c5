package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/host"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/qemu"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/peer"
)

// kernelTimeout is how long the guest's kernel may take to come from the package archive, the first time.
const kernelTimeout = 10 * time.Minute

// guestProgram is the name of the guest's binary, which lies beside this one.
const guestProgram = "spaced-guest"

// hostRole is the only process on a node that touches machines, disks and namespaces. When it ends, the machines run on.
func hostRole() *cobra.Command {
	return roleCommand(instance.Host, "Run the node's spaced-host", func(ctx context.Context, i instance.Instance, c instance.Config) error {
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
		return peer.Serve(ctx, l, h.Handler())
	})
}

// hostConfig mounts the volume and prepares what guests boot.
func hostConfig(ctx context.Context, i instance.Instance, c instance.Config) (host.Config, error) {
	out := host.Config{Instance: i, Helper: rootfs.Self(), Version: version}
	out.Volume = disk.Volume{Path: i.Volume(), Image: i.VolumeImage(), Bytes: int64(c.VolumeGiB) << 30}
	if err := out.Volume.Ensure(ctx); err != nil {
		return out, err
	}
	self, err := os.Executable()
	if err != nil {
		return out, fmt.Errorf("find this program: %w", err)
	}
	prepare, cancel := context.WithTimeout(ctx, kernelTimeout)
	defer cancel()
	out.Kernel, err = kernel.Prepare(prepare, kernel.Options{
		Dir: i.KernelDir(), Guest: filepath.Join(filepath.Dir(self), guestProgram),
		Progress: func(line string) { slog.Info("preparing the guest's kernel", "step", line) },
	})
	if err != nil {
		return out, err
	}
	out.Driver, err = chooseDriver(ctx, c)
	return out, err
}

// chooseDriver makes the driver that the operator forces, or the one that works everywhere.
func chooseDriver(ctx context.Context, c instance.Config) (vmm.Driver, error) {
	if name := cmp.Or(c.Driver, qemu.Name); name != qemu.Name {
		return nil, fmt.Errorf("configuration: driver %q is unknown: leave it empty, or %q", name, qemu.Name)
	}
	return qemu.New(ctx, qemu.Config{Acceleration: cmp.Or(c.Acceleration, "tcg")})
}

// rootfsCommand is the helper that makes the file systems of templates; spaced-host starts it.
func rootfsCommand() *cobra.Command {
	return &cobra.Command{
		Use: rootfs.Subcommand, Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) { os.Exit(rootfs.HelperMain(args)) },
	}
}
