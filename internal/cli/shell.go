package cli

import (
	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// shells are tried in this order: an image may have only one of them.
const shells = `if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi`

func shellCommand(a *app) *cobra.Command {
	f := &commandFlags{}
	c := &cobra.Command{
		Use: "shell SANDBOX", Short: "Open a shell in a sandbox, in a terminal of its own", Args: cobra.ExactArgs(1),
		Long: "Opens a login shell in a sandbox. Ctrl-C and the window's size go to the shell; it ends with exit or Ctrl-D. When stdin isn't a\n" +
			"terminal the shell has none either: it runs the commands that come in, and ends after the last one.",
		Example: "  space shell sbx_…\n  space shell -u root -w /etc sbx_…\n  space shell sbx_… < script.sh",
	}
	c.Flags().StringVarP(&f.user, "user", "u", "", "user to run as; the template's default if not given")
	c.Flags().StringVarP(&f.cwd, "workdir", "w", "", "absolute path to begin in")
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		door, err := n.door(args[0])
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		line, open := shells, true
		in := client.SessionCreate{Shell: &line, OpenStdin: &open, User: given(f.user), Cwd: given(f.cwd)}
		if isTerminal(cmd.InOrStdin()) {
			in.Tty = &gen.TerminalSize{Rows: 24, Cols: 80}
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{door: door, signals: signals, in: cmd.InOrStdin(), tell: cmd.ErrOrStderr()}
		return interrupted(ctx, talk.run(ctx, in, plain(cmd.OutOrStdout(), cmd.ErrOrStderr())))
	}
	return c
}
