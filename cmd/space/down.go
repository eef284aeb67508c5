package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
	"github.com/space-platform/space/internal/supervise"
	"github.com/space-platform/space/internal/systemd"
)

func downCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "down", Short: "Stop the platform on this machine", Args: cobra.NoArgs,
		Example: "  space down\n  space down --force",
		Long: "Stops the roles and unmounts the volume. A sandbox's memory isn't durable, so running sandboxes end for good: the command\n" +
			"refuses while there are any, unless --force is given. Templates, records and keys stay.",
	}
	name := instanceFlag(c)
	c.Flags().BoolVar(&force, "force", false, "end running sandboxes; they will be lost")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		i, err := find(name)
		if err != nil {
			return err
		}
		if err := refuseToLose(cmd.Context(), i, force); err != nil {
			return err
		}
		return down(cmd.Context(), newSteps(cmd.ErrOrStderr()), i)
	}
	return c
}

// refuseToLose refuses to end machines that nobody said may be lost. Those that wait in the pool are nobody's.
func refuseToLose(ctx context.Context, i instance.Instance, force bool) error {
	n, err := setup.Machines(i)
	if err != nil || n == 0 || force {
		return err
	}
	if n -= waiting(ctx, i); n <= 0 {
		return nil
	}
	return cli.ErrorWithHint("conflict", "delete them with 'space sandbox rm', or lose them with --force", "machines of sandboxes or template builds are running and would be lost: %d", n)
}

// down stops the roles and ends what they left running. Doing it twice is the same as once.
func down(ctx context.Context, s *steps, i instance.Instance) error {
	if err := s.do("stop roles", func() (string, error) { return "", stopRoles(ctx, i) }); err != nil {
		return err
	}
	return s.do("end machines, unmount the volume", func() (string, error) {
		n, err := setup.Machines(i)
		if err != nil {
			return "", err
		}
		if err := setup.EndMachines(ctx, i); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d machines ended", n), setup.RemoveKernelObjects(ctx, i)
	})
}

// stopRoles has systemd stop what it keeps, and then whatever else runs.
func stopRoles(ctx context.Context, i instance.Instance) error {
	if sd := systemd.Machine(); sd.Keeps(i) {
		if err := sd.Stop(ctx, i); err != nil {
			return err
		}
	}
	return supervise.Stop(ctx, superviseDirs(i), programs(i, ""))
}
