package cli

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func templateListCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List templates, newest first, with the failed and the earlier ones", Args: cobra.NoArgs,
		Long: "Lists all templates, newest first. CURRENT says whether NAME, and each of ALIASES, means this one; NAME:TAG means the one with the tag\n" +
			"whichever is current. 'space template rm' deletes those that aren't wanted, failed ones too.",
		Example: "  space template ls", RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			list, err := c.ListTemplates(cmd.Context())
			if err != nil {
				return err
			}
			if n.json() {
				return WriteJSON(cmd.OutOrStdout(), items[client.Template]{list})
			}
			return showTemplates(cmd.OutOrStdout(), list)
		}}
}
