package cli

import "github.com/spf13/cobra"

func execCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "exec [flags] SANDBOX [--] CMD…", Short: "Run a command in a sandbox, with its output streaming and its exit code",
		Example: "  space exec sbx_… -- python3 -c 'print(6*7)'\n  echo hello | space exec sbx_… -- cat",
	}
	n, f := connectionFlags(a, c), addCommandFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		target, argv, err := target(cmd, args, "SANDBOX")
		if err != nil || argv == nil {
			return err
		}
		in, err := f.session(argv, cmd.InOrStdin(), cmd.ErrOrStderr(), a.getenv)
		if err != nil {
			return err
		}
		client, err := n.client()
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{client: client, sandbox: target, signals: signals, in: f.rest, tell: cmd.ErrOrStderr()}
		return interrupted(ctx, talk.run(ctx, in, n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
	}
	return c
}
