// Command space is the whole platform in one binary: the client's commands, and a subcommand for each role.
package main

import (
	"os"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return 1
	}
	return 0
}

// rootCommand lists every command; one file each.
func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "space", Short: "Sandboxes for AI agents: a Linux machine of its own for every task", SilenceUsage: true}
	root.AddCommand(roleCommands()...)
	root.AddCommand(bootstrapKeyCommand())
	return root
}
