package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/systemd"
)

func setupCommand() *cobra.Command {
	var units, noInstall bool
	c := &cobra.Command{
		Use: "setup", Short: "Install packages and make users and directories, without starting anything", Args: cobra.NoArgs,
		Example: "  space setup\n  space setup --systemd && space up",
		Long: "Installs packages and makes users and directories, without starting anything. With --systemd it also writes systemd units: from then\n" +
			"on 'space up' starts the roles through systemd, which keeps them running and starts them at boot once the target is enabled.",
	}
	name := instanceFlag(c)
	c.Flags().BoolVar(&units, "systemd", false, "write a systemd unit for each role, and space@NAME.target, which holds them together")
	c.Flags().BoolVar(&noInstall, "no-install", false, "don't install Debian packages")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		n, err := name()
		if err != nil {
			return err
		}
		s := newSteps(cmd.ErrOrStderr())
		i, err := prepare(cmd.Context(), s, n, !noInstall)
		if err != nil || !units {
			return err
		}
		return s.do("systemd units", func() (string, error) { return "", installUnits(cmd.Context(), i) })
	}
	c.AddCommand(setupFirecrackerCommand())
	return c
}

// installUnits writes units for the roles that the instance has now.
func installUnits(ctx context.Context, i instance.Instance) error {
	return systemd.Machine().Install(ctx, i, programs(i, filepath.Join(i.BinDir(), "space")))
}
