package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// maxForks is how many sandboxes can be made of one at once.
const maxForks = 100

func sandboxForkCommand(n *connection) *cobra.Command {
	count := 1
	var metadata []string
	c := &cobra.Command{
		Use: "fork SANDBOX", Short: "Make sandboxes of one as it is, with memory, processes and files", Args: cobra.ExactArgs(1),
		Long:    "Makes sandboxes of one as it is, with memory, processes and files, and shows their ids. The sandbox itself goes on.",
		Example: "  space sandbox fork sbx_…\n  space sandbox fork sbx_… --count 3 --metadata idea=b", ValidArgsFunction: n.completes(false, sandboxes("running", "paused", "suspended")),
	}
	numberVar(c.Flags(), &count, "count", "", "how many, 1 to 100", 1, maxForks)
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "NAME=VALUE of each of them, instead of what the sandbox has; may be repeated")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in := client.SandboxFork{Count: &count}
		if len(metadata) > 0 {
			m, err := pairs("--metadata", metadata)
			if err != nil {
				return err
			}
			in.Metadata = (*client.Metadata)(&m)
		}
		c, err := n.client()
		if err != nil {
			return err
		}
		list, err := withProgress(cmd.ErrOrStderr(), fmt.Sprintf("forking sandbox %s into %d", args[0], count), func() ([]client.Sandbox, error) {
			return c.ForkSandbox(cmd.Context(), args[0], in)
		})
		return errors.Join(err, n.showForks(cmd, list))
	}
	return c
}

// showForks shows the ids, one a line, as create does.
func (n *connection) showForks(cmd *cobra.Command, list []client.Sandbox) error {
	if n.json() {
		return n.showAll(cmd.OutOrStdout(), list)
	}
	for _, s := range list {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), s.Id); err != nil {
			return err
		}
	}
	return nil
}
