package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxRemoveCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "rm SANDBOX…", Aliases: []string{"delete"}, SuggestFor: []string{"kill", "remove"}, Short: "Delete sandboxes, in any state, and wait until nothing of them is left",
		Example: "  space sandbox rm sbx_…\n  space sandbox rm sbx_… sbx_…", ValidArgsFunction: n.completes(true, sandboxes()),
		Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range args {
				errs = append(errs, n.removeSandbox(cmd, c, id))
			}
			return together(errs)
		},
	}
}

func (n *connection) removeSandbox(cmd *cobra.Command, c *client.Client, id string) error {
	if err := deleteSandbox(cmd.Context(), cmd, c, id); err != nil {
		return err
	}
	if n.json() {
		return WriteJSON(cmd.OutOrStdout(), map[string]string{"id": id, "state": "deleted"})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), id)
	return err
}

func deleteSandbox(ctx context.Context, cmd *cobra.Command, c *client.Client, id string) error {
	p := startProgress(cmd.ErrOrStderr(), "deleting sandbox "+id)
	defer p.end()
	return c.DeleteSandbox(ctx, id)
}
