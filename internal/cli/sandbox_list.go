package cli

import (
	"github.com/spf13/cobra"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

func sandboxListCommand(n *connection) *cobra.Command {
	var metadata []string
	var states []client.SandboxState
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List sandboxes, newest first", Args: cobra.NoArgs,
		Example: "  space sandbox ls\n  space sandbox ls --state running --metadata task=42\n  space sandbox ls -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := client.SandboxFilter{States: states}
			var err error
			if f.Metadata, err = pairs("--metadata", metadata); err != nil {
				return err
			}
			c, err := n.client()
			if err != nil {
				return err
			}
			list := []client.Sandbox{}
			for s, err := range c.ListSandboxes(cmd.Context(), f) {
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
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "NAME=VALUE that they have; may be repeated")
	choicesVar(c, &states, "state", "only those in this state, or in one of several: "+list(space.States())+". Deleted ones are kept for a day", apiStates())
	return c
}

func apiStates() []client.SandboxState {
	var out []client.SandboxState
	for _, s := range space.States() {
		out = append(out, client.SandboxState(s))
	}
	return out
}
