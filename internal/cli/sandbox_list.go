package cli

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxListCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List sandboxes, newest first", Args: cobra.NoArgs,
		Example: "  space sandbox ls\n  space sandbox ls -o json", RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			list := []client.Sandbox{}
			for s, err := range c.ListSandboxes(cmd.Context()) {
				if err != nil {
					return err
				}
				list = append(list, s)
			}
			if n.json() {
				return WriteJSON(cmd.OutOrStdout(), items[client.Sandbox]{list})
			}
			return showSandboxes(cmd.OutOrStdout(), list)
		}}
}
