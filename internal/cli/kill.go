package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func killCommand(a *app) *cobra.Command {
	var signal string
	c := &cobra.Command{
		Use: "kill SANDBOX SESSION", Short: "Send a signal to a session's process group", Args: cobra.ExactArgs(2),
		Example: "  space kill sbx_… ses_…\n  space kill -s INT sbx_… ses_…",
	}
	c.Flags().StringVarP(&signal, "signal", "s", "KILL", "its name, with or without SIG")
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"), liveSessions)
	n.completesFlag(c, "signal", words("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "STOP", "CONT"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		name := strings.ToUpper(signal)
		if !strings.HasPrefix(name, "SIG") {
			name = "SIG" + name
		}
		err := n.inside(cmd.Context(), args[0], func(p *client.Plane) error { return p.Signal(cmd.Context(), args[1], name) })
		if err != nil {
			return err
		}
		return n.showDone(cmd.OutOrStdout(), args[1], name)
	}
	return c
}
