package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func operationCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "operation", Short: "Show lifecycle changes in progress", Args: cobra.NoArgs, RunE: help}
	n := connectionFlags(a, c)
	c.AddCommand(operationGetCommand(n))
	return c
}

func operationGetCommand(n *connection) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{Use: "get OPERATION", Short: "Show an operation, or wait for its end", Args: cobra.ExactArgs(1),
		Example: "  space operation get op_…\n  space operation get op_… --wait 1m"}
	spanVar(c.Flags(), &wait, "wait", "how long to wait for its end, at most 5m", time.Millisecond, 5*time.Minute)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := n.client()
		if err != nil {
			return err
		}
		p := startProgress(cmd.ErrOrStderr(), "waiting for "+args[0])
		op, err := c.GetOperation(cmd.Context(), args[0], wait)
		p.end()
		if err != nil {
			return err
		}
		if n.json() {
			return WriteJSON(cmd.OutOrStdout(), op)
		}
		return WriteTable(cmd.OutOrStdout(), []string{"ID", "KIND", "STATUS", "OF", "ERROR"}, [][]string{operationRow(op)})
	}
	return c
}

func operationRow(op client.Operation) []string {
	of, failure := "", ""
	if op.Sandbox != nil {
		of = op.Sandbox.Id
	}
	if op.Template != nil {
		of = op.Template.Name
	}
	if op.Error != nil {
		failure = op.Error.Code
	}
	return []string{op.Id, string(op.Kind), string(op.Status), of, failure}
}
