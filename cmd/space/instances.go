package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// listed is a platform of this machine.
type listed struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Running bool   `json:"running"`
}

func instancesCommand() *cobra.Command {
	c := &cobra.Command{Use: "instances", Short: "List the platforms on this machine", Args: cobra.NoArgs, Example: "  space instances"}
	json := cli.OutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		slots, err := instance.List()
		if err != nil {
			return err
		}
		list, rows := []listed{}, [][]string{}
		for name, slot := range slots {
			i := instance.Instance{Name: name, Slot: slot}
			list = append(list, listed{name, loopback(i), kept(cmd.Context(), i)})
		}
		slices.SortFunc(list, func(a, b listed) int { return cmp.Compare(a.Name, b.Name) })
		if json() {
			return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"items": list})
		}
		for _, l := range list {
			rows = append(rows, []string{l.Name, l.URL, fmt.Sprint(l.Running)})
		}
		return cli.WriteTable(cmd.OutOrStdout(), []string{"NAME", "URL", "RUNNING"}, rows)
	}
	return c
}
