package cli

import "github.com/spf13/cobra"

func templateGetCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "get TEMPLATE", Short: "Show a template", Args: cobra.ExactArgs(1),
		Example: "  space template get base -o json", ValidArgsFunction: n.completes(false, templates), RunE: func(cmd *cobra.Command, args []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			t, err := c.GetTemplate(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return n.showTemplate(cmd.OutOrStdout(), t)
		}}
}
