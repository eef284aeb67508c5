package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// version is the build's, stamped by the linker.
var version = "dev"

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the build's version", Args: cobra.NoArgs, Example: "  space version", Run: func(cmd *cobra.Command, _ []string) {
		fmt.Fprintln(cmd.OutOrStdout(), version)
	}}
}
