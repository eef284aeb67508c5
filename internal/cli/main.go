package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Main runs the command line and returns the exit code. The given commands, which run a platform on this machine, stand beside the client's.
func Main(ctx context.Context, args []string, platform ...*cobra.Command) int {
	root := Root(platform...)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return report(os.Stderr, cmd, args, err)
}

// The groups in which help shows the commands.
const (
	groupWork     = "work"
	groupOrg      = "org"
	groupPlatform = "platform"
)

// Root returns the whole command line. The given commands stand beside the client's.
func Root(platform ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: "space", Short: "Sandboxes for AI agents: a Linux machine of its own for every task",
		Long:         "Sandboxes for AI agents: a Linux machine of its own for every task.\n\n" + exitCodes,
		Example:      "  space up                                      # a platform on this machine\n  space run base python3 -c 'print(6*7)'        # a command in a sandbox of its own\n  space shell $(space sandbox create base)      # a sandbox that stays, and a shell in it",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(&cobra.Group{ID: groupWork, Title: "Sandboxes, and what runs in them:"}, &cobra.Group{ID: groupOrg, Title: "Projects, people and keys:"},
		&cobra.Group{ID: groupPlatform, Title: "A platform on this machine:"})
	root.Flags().VarP(new(format), "output", "o", "how to show errors")
	root.Flags().Lookup("output").Hidden = true // it shows nothing but help; that there is no such command may be wanted as JSON
	a := &app{getenv: os.Getenv, lookupenv: os.LookupEnv}
	root.AddCommand(in(groupWork, runCommand(a), execCommand(a), shellCommand(a), attachCommand(a), cpCommand(a), psCommand(a), killCommand(a), topCommand(a), sandboxCommand(a), snapshotCommand(a), treeCommand(a), gcCommand(a), templateCommand(a))...)
	root.AddCommand(in(groupOrg, eventsCommand(a), operationCommand(a), projectCommand(a), userCommand(a), roleCommand(a), keyCommand(a))...)
	root.AddCommand(in(groupPlatform, platform...)...)
	root.AddCommand(completionCommand())
	exemplify(root)
	markFailures(root)
	return root
}

// in puts commands into a group.
func in(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// exitCodes is shown with the help; see the package comment.
const exitCodes = `Exit codes:
  0        it worked
  1        it didn't: the error is on stderr, with its code and the next step
  2        it was called wrongly
  124      run, exec: the command's --timeout was over
  125      run, exec: the platform failed, the command's own end isn't known; or output is missing that was asked for
  126,127  run, exec: the program couldn't be started, or wasn't found
  128+n    run, exec: signal n ended the command; 130 also: interrupted
  other    run, exec: the command's own

Settings are taken from flags, then the environment (SPACE_INSTANCE, SPACE_URL, SPACE_API_KEY), then the configuration file
(SPACE_CONFIG, or ~/.config/space/config.toml, which 'space up' writes).`

// app is what the client's commands share.
type app struct {
	getenv    func(string) string
	lookupenv func(string) (string, bool)
}

// exemplify gives a group the first example of each of its commands, unless it has its own.
func exemplify(c *cobra.Command) {
	var all []string
	for _, sub := range c.Commands() {
		exemplify(sub)
		if first, _, _ := strings.Cut(sub.Example, "\n"); first != "" && !sub.Hidden {
			all = append(all, first)
		}
	}
	if c.Example == "" {
		c.Example = strings.Join(all, "\n")
	}
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
