package cli

import (
	"context"
	"errors"
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
		return n.showBuild(cmd, c, op, args[0], false)
	}
	return c
}

// showBuild waits for the end of a build and shows the template. Who doesn't want to wait is told that the build goes on.
func (n *connection) showBuild(cmd *cobra.Command, c *client.Client, op client.Operation, name string, lines bool) error {
	ctx, _, stop := interruptible(cmd.Context())
	defer stop()
	t, err := awaitBuild(ctx, c, op, name, cmd.ErrOrStderr(), lines)
	var s signalled
	switch {
	case err != nil && errors.As(context.Cause(ctx), &s):
		return exitCode{exitSignal + int(s.Signal), &cliError{code: "interrupted", message: "template " + name + " goes on being built",
			hint: "'space template logs -f " + name + "' shows how it goes, 'space template rm " + name + "' ends it"}}
	case err != nil:
		return err
	}
	return n.showTemplate(cmd.OutOrStdout(), t)
}

// awaitBuild waits for the end of a build, and tells each new step of it, and what it says if lines are wanted. The template itself says whether it's over: a node makes one
// anew by itself when it has another kernel or guest than the one with which the template was made.
func awaitBuild(ctx context.Context, c *client.Client, op client.Operation, name string, tell io.Writer, lines bool) (client.Template, error) {
	w := &buildWatch{name: name, tell: tell, progress: startProgress(tell, "building template "+name)}
	defer w.progress.end()
	if lines && op.Status == gen.OperationStatusRunning && op.Template != nil {
		defer w.follow(ctx, c, op.Template.Id)()
	}
	for op.Status == gen.OperationStatusRunning {
		var err error
		if op, err = c.GetOperation(ctx, op.Id, buildPoll); err != nil {
			return client.Template{}, err
		}
		w.see(op.Template)
	}
	if _, err := c.Await(ctx, op); err != nil {
		return client.Template{}, failedBuild(name, err)
	}
	return w.settled(ctx, c)
}

// failedBuild is why a build failed, with what to do about it.
func failedBuild(name string, err error) error {
	err = fmt.Errorf("build template %s: %w", name, err)
	var refused *client.Error
	if !errors.As(err, &refused) {
		return err // the platform didn't say
	}
	if refused.Code == "capacity_exhausted" {
		return hinted{err, "it isn't tried again by itself: delete what isn't needed ('space sandbox ls', 'space template ls'), then give the same command: it goes on with what was made so far"}
	}
	return hinted{err, "'space template logs " + name + "' shows what the build said; the same command builds it again, with what was made so far"}
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
		w.progress.above("building template " + w.name + ": " + w.last)
	}
}

// logLinger is how long the rest of a log may take to come after its build's end.
const logLinger = 5 * time.Second

// follow shows what the build says until it ends; done waits for the last line. Not to see them fails nothing: the log stays.
func (w *buildWatch) follow(ctx context.Context, c *client.Client, template string) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for l, err := range c.FollowTemplateLogs(ctx, template) {
			if err != nil {
				return // why the build failed is told by who waits for it
			}
			w.progress.above("[" + step(l) + "] " + l.Text)
		}
	}()
	return func() {
		late := time.AfterFunc(logLinger, cancel)
		defer late.Stop()
		defer cancel()
		<-ended
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
			return t, failedBuild(w.name, &client.Error{Code: t.Error.Code, Detail: detail(t), RequestID: deref(t.Error.RequestId)})
		case t.State == gen.TemplateStateFailed:
			return t, failedBuild(w.name, &client.Error{Code: "internal", Detail: "it failed, and doesn't say why"})
		}
		w.see(&t)
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-tick.C:
		}
	}
}
