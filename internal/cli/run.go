package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

const (
	createTimeout = 30 * time.Second // to order the sandbox; an interrupt must not leave one whose id nobody knows
	deleteTimeout = 60 * time.Second // to delete it, also after an interrupt
)

func runCommand(a *app) *cobra.Command {
	var keep, remove bool
	c := &cobra.Command{
		Use: "run [flags] TEMPLATE [--] CMD…", Short: "Run a command in a sandbox of its own and delete the sandbox",
		Long: "Creates a sandbox, runs the command in it, streams its output, deletes the sandbox and ends with the command's exit code.\n\n" + aboutInput,
		Example: "  space run base python3 -c 'print(6*7)'\n  space run base python3 - < script.py\n  space run -it --rm base bash\n" +
			"  space run --keep -e TOKEN base -- ./job --fast",
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep the sandbox and say its id on stderr")
	c.Flags().BoolVar(&remove, "rm", true, "delete the sandbox afterwards, which is so without it, too; --rm=false is --keep")
	n, f := connectionFlags(a, c), addCommandFlags(c)
	c.ValidArgsFunction = n.completes(false, usableTemplates)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		target, argv, err := target(cmd, args, "TEMPLATE")
		if err != nil || argv == nil {
			return err
		}
		in, err := f.session(argv, cmd.InOrStdin(), cmd.ErrOrStderr(), a.lookupenv)
		if err != nil {
			return err
		}
		client, err := n.client()
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{signals: signals, in: f.rest, tell: cmd.ErrOrStderr()}
		return n.run(ctx, cmd, client, talk, target, in, keep || !remove)
	}
	return c
}

// run creates a sandbox, runs the command in it and deletes it, also when it's interrupted.
func (n *connection) run(ctx context.Context, cmd *cobra.Command, c *client.Client, talk conversation, template string, in client.SessionCreate, keep bool) (err error) {
	ordering, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	op, err := c.BeginCreateSandbox(ordering, client.SandboxCreate{Template: template})
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	id := op.Sandbox.Id
	if keep {
		fmt.Fprintf(cmd.ErrOrStderr(), "sandbox: %s\n", id)
	} else {
		defer func() { err = joinEnding(err, n.discard(ctx, cmd, c, talk.signals, id)) }()
	}
	if _, err := awaitSandbox(ctx, c, op, cmd.ErrOrStderr()); err != nil {
		return interrupted(ctx, exitCode{exitPlatform, err})
	}
	talk.door = keyDoor(c, id)
	return interrupted(ctx, talk.run(ctx, in, n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
}

// discard deletes the sandbox, unless somebody insists on an end at once.
func (n *connection) discard(ctx context.Context, cmd *cobra.Command, c *client.Client, signals *interrupts, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	err := signals.whileCleaning(ctx, func(ctx context.Context) error { return deleteSandbox(ctx, cmd, c, id) })
	if err != nil {
		return &cliError{code: explain(err).Code, message: explain(err).Message, hint: "the sandbox may be there still: 'space sandbox rm " + id + "' deletes it"}
	}
	return nil
}

// joinEnding keeps the command's ending when the sandbox couldn't be deleted, and says so: the command did what it did.
func joinEnding(ending, deleting error) error {
	if deleting == nil {
		return ending
	}
	var e exitCode
	if errors.As(ending, &e) {
		return exitCode{e.code, errors.Join(e.err, deleting)}
	}
	return exitCode{exitPlatform, deleting}
}
