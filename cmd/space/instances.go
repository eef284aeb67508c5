package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
)

// listed is a platform of this machine.
type listed struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Running bool   `json:"running"`
	Build   string `json:"build,omitempty"` // the directory of the binaries with which it was brought up last
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
			list = append(list, listed{name, loopback(i), kept(cmd.Context(), i), setup.BuildOf(i)})
		}
		slices.SortFunc(list, func(a, b listed) int { return cmp.Compare(a.Name, b.Name) })
		if json() {
			return cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"items": list})
		}
		for _, l := range list {
			rows = append(rows, []string{l.Name, l.URL, fmt.Sprint(l.Running), l.Build})
		}
		return cli.WriteTable(cmd.OutOrStdout(), []string{"NAME", "URL", "RUNNING", "BUILD"}, rows)
	}
	return c
}
