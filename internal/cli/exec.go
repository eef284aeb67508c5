package cli

import "github.com/spf13/cobra"

func execCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "exec [flags] SANDBOX [--] CMD…", Short: "Run a command in a sandbox, with its output streaming and its exit code",
		Long: "Runs a command in a sandbox, streams its output, and ends with its exit code. Flags of the command need no --.\n\n" + aboutInput,
		Example: "  space exec sbx_… python3 -c 'print(6*7)'\n  space exec -it sbx_… bash\n  space exec -u root -w /srv -e DEBUG=1 sbx_… -- ls -l\n" +
			"  space exec -i sbx_… -- tar -x < tree.tar",
	}
	n, f := connectionFlags(a, c), addCommandFlags(c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		target, argv, err := target(cmd, args, "SANDBOX")
		if err != nil || argv == nil {
			return err
		}
		in, err := f.session(argv, cmd.InOrStdin(), cmd.ErrOrStderr(), a.lookupenv)
		if err != nil {
			return err
		}
		door, err := n.door(target)
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{door: door, signals: signals, in: f.rest, tell: cmd.ErrOrStderr()}
		return interrupted(ctx, talk.run(ctx, in, n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
	}
	return c
}
