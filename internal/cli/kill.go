package cli

import (
	"context"
	"io"
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
	c.ValidArgsFunction = n.completes(false, sandboxes("running"), liveSessions)
	n.completesFlag(c, "signal", words("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "STOP", "CONT"))
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		p, err := cl.Plane(ctx, args[0])
		if err != nil {
			return err
		}
		name := strings.ToUpper(signal)
		if !strings.HasPrefix(name, "SIG") {
			name = "SIG" + name
		}
		if err := p.Signal(ctx, args[1], name); err != nil {
			return err
		}
		return n.showDone(out, args[1], name)
	})
	return c
}
