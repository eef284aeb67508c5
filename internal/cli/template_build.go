package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// buildPoll is how often the build's progress is asked for while one request waits for its end.
const buildPoll = 2 * time.Second

func templateBuildCommand(n *connection) *cobra.Command {
	c := &cobra.Command{
		Use: "build RECIPE", Short: "Build a template from a built-in recipe (base, mini), unless it's ready, and wait",
		Args: cobra.ExactArgs(1), ValidArgs: []string{"base", "mini"},
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := n.client()
		if err != nil {
			return err
		}
		op, err := c.BeginBuildTemplate(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := awaitBuild(cmd.Context(), c, op, args[0], cmd.ErrOrStderr()); err != nil {
			return err
		}
		t, err := c.GetTemplate(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return n.showTemplate(cmd.OutOrStdout(), t)
	}
	return c
}

// awaitBuild waits for a build and tells each new step of it: a line each, since a build takes minutes.
func awaitBuild(ctx context.Context, c *client.Client, op client.Operation, name string, tell io.Writer) error {
	p := startProgress(tell, "building template "+name)
	defer p.end()
	for last := ""; op.Status == gen.OperationStatusRunning; {
		var err error
		if op, err = c.GetOperation(ctx, op.Id, buildPoll); err != nil {
			return err
		}
		if step := buildStep(op); step != "" && step != last {
			last = step
			p.say("building template " + name + ": " + step)
			if !isTerminal(tell) {
				fmt.Fprintf(tell, "building template %s: %s\n", name, step)
			}
		}
	}
	_, err := c.Await(ctx, op)
	if err != nil {
		return fmt.Errorf("build template %s: %w", name, err)
	}
	return nil
}

func buildStep(op client.Operation) string {
	if op.Template == nil || op.Template.Progress == nil {
		return ""
	}
	return *op.Template.Progress
}
