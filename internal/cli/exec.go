package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func execCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "exec SANDBOX [flags] -- CMD…", Short: "Run a command in a sandbox, with its output streaming and its exit code",
		Example: "  space exec sbx_… -- python3 -c 'print(6*7)'\n  echo hello | space exec sbx_… -- cat",
		Args:    targetAndCommand("SANDBOX"),
	}
	n, f := connectionFlags(a, c), addCommandFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in, err := f.session(args[1:], cmd.InOrStdin(), cmd.ErrOrStderr(), a.getenv)
		if err != nil {
			return err
		}
		client, err := n.client()
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		err = interrupted(ctx, f.run(ctx, client, args[0], in, cmd, n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
		if ctx.Err() != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "detached: the command goes on in %s\n", args[0])
		}
		return err
	}
	return c
}
