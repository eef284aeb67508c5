package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

func sandboxListCommand(n *connection) *cobra.Command {
	var metadata, states []string
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List sandboxes, newest first", Args: cobra.NoArgs,
		Example: "  space sandbox ls\n  space sandbox ls --state running --metadata task=42\n  space sandbox ls -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := sandboxFilter(metadata, states)
			if err != nil {
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
	c.Flags().StringSliceVar(&states, "state", nil, "only those in this state, or in one of several; deleted ones are kept for a day")
	c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func sandboxFilter(metadata, states []string) (f client.SandboxFilter, err error) {
	if len(metadata) > 0 {
		if f.Metadata, err = pairs("--metadata", metadata); err != nil {
			return f, err
		}
	}
	for _, s := range states {
		if !slices.Contains(stateNames(), s) {
			return f, fmt.Errorf("--state %q is none: the states are %s", s, strings.Join(stateNames(), ", "))
		}
		f.States = append(f.States, client.SandboxState(s))
	}
	return f, nil
}

func stateNames() []string {
	var out []string
	for _, s := range space.States() {
		out = append(out, string(s))
	}
	return out
}
