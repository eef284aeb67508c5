package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
)

// Main runs the command line and returns the exit code. The given commands stand beside the client's.
func Main(ctx context.Context, args []string, more ...*cobra.Command) int {
	root := &cobra.Command{
		Use: "space", Short: "Sandboxes for AI agents: a Linux machine of its own for every task",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(Commands(os.Getenv)...)
	root.AddCommand(more...)
	markFailures(root)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return report(os.Stderr, err, wantsJSON(cmd))
}

// Commands returns the client's commands.
func Commands(getenv func(string) string) []*cobra.Command {
	a := &app{getenv: getenv}
	return []*cobra.Command{runCommand(a), execCommand(a), sandboxCommand(a), templateCommand(a), operationCommand(a)}
}

// app is what the client's commands share.
type app struct {
	getenv func(string) string
}

// markFailures makes the errors of commands distinguishable from those of parsing their lines.
func markFailures(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return failed{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markFailures(sub)
	}
}
