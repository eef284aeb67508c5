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
		Args: cobra.ExactArgs(1), Example: "  space template build base", ValidArgs: []string{"base", "mini"},
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
		t, err := awaitBuild(cmd.Context(), c, op, args[0], cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return n.showTemplate(cmd.OutOrStdout(), t)
	}
	return c
}

// awaitBuild waits for the end of a build, and tells each new step of it. The template itself says whether it's over: a node makes one
// anew by itself when it has another kernel or guest than the one with which the template was made.
func awaitBuild(ctx context.Context, c *client.Client, op client.Operation, name string, tell io.Writer) (client.Template, error) {
	w := &buildWatch{name: name, tell: tell, progress: startProgress(tell, "building template "+name)}
	defer w.progress.end()
	for op.Status == gen.OperationStatusRunning {
		var err error
		if op, err = c.GetOperation(ctx, op.Id, buildPoll); err != nil {
			return client.Template{}, err
		}
		w.see(op.Template)
	}
	if _, err := c.Await(ctx, op); err != nil {
		return client.Template{}, fmt.Errorf("build template %s: %w", name, err)
	}
	return w.settled(ctx, c)
}

// buildWatch tells people how a build goes: on a terminal in one line that changes, elsewhere in a line for each step.
type buildWatch struct {
	name     string
	tell     io.Writer
	progress *progress
	last     string
}

func (w *buildWatch) see(t *client.Template) {
	if t == nil || t.Progress == nil || *t.Progress == "" || *t.Progress == w.last {
		return
	}
	w.last = *t.Progress
	w.progress.say("building template " + w.name + ": " + w.last)
	if !isTerminal(w.tell) {
		fmt.Fprintf(w.tell, "building template %s: %s\n", w.name, w.last)
	}
}

// settled returns the template when it isn't being built.
func (w *buildWatch) settled(ctx context.Context, c *client.Client) (client.Template, error) {
	tick := time.NewTicker(buildPoll)
	defer tick.Stop()
	for {
		t, err := c.GetTemplate(ctx, w.name)
		switch {
		case err != nil || t.State == gen.TemplateStateReady:
			return t, err
		case t.State == gen.TemplateStateFailed && t.Error != nil:
			return t, ErrorWithHint(t.Error.Code, "run the command again to build it anew", "build template %s: %s", w.name, detail(t))
		case t.State == gen.TemplateStateFailed:
			return t, ErrorWithHint("internal", hints["internal"], "build template %s: it failed", w.name)
		}
		w.see(&t)
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-tick.C:
		}
	}
}
