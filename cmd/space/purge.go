package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
	"github.com/space-platform/space/internal/systemd"
)

func purgeCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "purge --instance NAME --yes", Short: "Remove a platform from this machine, with all its data", Args: cobra.NoArgs,
		Example: "  space purge --instance demo --yes",
		Long:    "Stops the platform and removes its data, users, logs and its entry in the user's configuration. Debian packages stay.",
	}
	var name string
	c.Flags().StringVar(&name, "instance", "", "name of the platform on this machine")
	c.Flags().BoolVar(&yes, "yes", false, "it's meant")
	c.MarkFlagRequired("instance") // what can't be undone names its object
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		if !yes {
			return cli.ErrorWithHint("conflict", "add --yes if it's meant", "everything of platform %s would be removed: sandboxes, templates, database, keys", name)
		}
		return purge(cmd.Context(), newSteps(cmd.ErrOrStderr()), name)
	}
	return c
}

func purge(ctx context.Context, s *steps, name string) error {
	i, err := instance.Find(name)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.to, "platform %s isn't on this machine\n", name)
		return cli.Forget(userEnvironment, name)
	}
	if err != nil {
		return err
	}
	if err := down(ctx, s, i); err != nil {
		return err
	}
	if i.ExternalDatabase() {
		fmt.Fprintf(s.to, "the records in the database that %s names stay there\n", i.DatabaseFile())
	}
	return s.do("remove data, users and configuration", func() (string, error) {
		if err := cli.Forget(userEnvironment, name); err != nil {
			return "", err
		}
		if err := systemd.Machine().Remove(ctx, i); err != nil {
			return "", err
		}
		return "", setup.Purge(ctx, i)
	})
}
