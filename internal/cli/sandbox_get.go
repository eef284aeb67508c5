package cli

import "github.com/spf13/cobra"

func sandboxGetCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "get SANDBOX", SuggestFor: []string{"inspect", "info", "show"}, Short: "Show a sandbox", Args: cobra.ExactArgs(1),
		Example: "  space sandbox get sbx_…\n  space sandbox get sbx_… -o json", ValidArgsFunction: n.completes(false, sandboxes()), RunE: func(cmd *cobra.Command, args []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			s, err := c.GetSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return n.showSandbox(cmd.OutOrStdout(), s)
		}}
}
