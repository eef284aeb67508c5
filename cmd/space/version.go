package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
)

// version is the build's, stamped by the linker.
var version = "dev"

func versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the build's version", Args: cobra.NoArgs, Example: "  space version"}
	json := cli.OutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if json() {
			return cli.WriteJSON(cmd.OutOrStdout(), map[string]string{"version": version})
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
		return err
	}
	return c
}
