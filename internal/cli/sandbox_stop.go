package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxStopCommand(n *connection) *cobra.Command {
	seconds := int(client.StopGrace / time.Second)
	c := &cobra.Command{
		Use: "stop SANDBOX…", Short: "Stop sandboxes: their disks are kept, their memory isn't", Args: cobra.MinimumNArgs(1),
		Long:    "Stop sandboxes: their disks are kept, their memory isn't. Processes get SIGTERM, and SIGKILL if they haven't ended in time.",
		Example: "  space sandbox stop sbx_…\n  space sandbox stop -t 60 sbx_…", ValidArgsFunction: n.completes(true, sandboxes("running", "paused")),
		RunE: n.withEach("stopping", func(c *client.Client, ctx context.Context, id string) (client.Sandbox, error) {
			return c.StopSandboxWithin(ctx, id, time.Duration(seconds)*time.Second)
		}),
	}
	numberVar(c.Flags(), &seconds, "time", "t", "seconds that processes have between SIGTERM and SIGKILL, 0 to 300", 0, 300)
	return c
}

func sandboxStartCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "start SANDBOX…", Short: "Start stopped or lost sandboxes from their disks", Args: cobra.MinimumNArgs(1),
		Example: "  space sandbox start sbx_…", ValidArgsFunction: n.completes(true, sandboxes("stopped", "lost")),
		RunE: n.withEach("starting", (*client.Client).StartSandbox),
	}
}

// withEach does something with every sandbox that is named, and shows what they are then.
func (n *connection) withEach(doing string, do func(*client.Client, context.Context, string) (client.Sandbox, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, ids []string) error {
		c, err := n.client()
		if err != nil {
			return err
		}
		var list []client.Sandbox
		var errs []error
		for _, id := range ids {
			s, err := withProgress(cmd.ErrOrStderr(), doing+" sandbox "+id, func() (client.Sandbox, error) { return do(c, cmd.Context(), id) })
			if err != nil {
				errs = append(errs, err)
				continue
			}
			list = append(list, s)
		}
		return together(append(errs, n.showAll(cmd.OutOrStdout(), list)))
	}
}

func (n *connection) showAll(out io.Writer, list []client.Sandbox) error {
	switch {
	case len(list) == 0:
		return nil
	case n.json():
		return WriteJSON(out, items[client.Sandbox]{list})
	default:
		return showSandboxes(out, list)
	}
}

// withProgress tells people what is being done while it takes.
func withProgress[T any](tell io.Writer, what string, do func() (T, error)) (T, error) {
	p := startProgress(tell, what)
	defer p.end()
	return do()
}
