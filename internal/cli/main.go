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
		Long:         "Sandboxes for AI agents: a Linux machine of its own for every task.\n\n" + exitCodes,
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

// exitCodes is shown with the help; see the package comment.
const exitCodes = `Exit codes:
  0        it worked
  1        it didn't: the error is on stderr, with its code and the next step
  2        it was called wrongly
  125      run, exec: the platform failed, the command's own end isn't known
  126,127  run, exec: the program couldn't be started, or wasn't found
  128+n    run, exec: signal n ended the command; 130 also: interrupted
  other    run, exec: the command's own

Settings are taken from flags, then the environment (SPACE_INSTANCE, SPACE_URL, SPACE_API_KEY), then the configuration file
(SPACE_CONFIG, or ~/.config/space/config.toml, which 'space up' writes).`

// Commands returns the client's commands.
func Commands(getenv func(string) string) []*cobra.Command {
	a := &app{getenv: getenv}
	return []*cobra.Command{
		runCommand(a), execCommand(a), shellCommand(a), cpCommand(a), psCommand(a), killCommand(a), topCommand(a), sandboxCommand(a), templateCommand(a), operationCommand(a), eventsCommand(a),
		projectCommand(a), userCommand(a), keyCommand(a),
	}
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
