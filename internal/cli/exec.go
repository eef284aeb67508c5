package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func execCommand(a *app) *cobra.Command {
	var detach bool
	c := &cobra.Command{
		Use: "exec [flags] SANDBOX [--] CMD…", Short: "Run a command in a sandbox, with its output streaming and its exit code",
		Long: "Runs a command in a sandbox, streams its output, and ends with its exit code. Flags of the command need no --. With -d it only says the session in which\n" +
			"the command runs, once it does: 'space attach' shows its output, 'space kill' ends it.\n\n" + aboutInput,
		Example: "  space exec sbx_… python3 -c 'print(6*7)'\n  space exec -it sbx_… bash\n  space exec -u root -w /srv -e DEBUG=1 sbx_… -- ls -l\n" +
			"  space exec -i sbx_… -- tar -x < tree.tar\n  space exec -d sbx_… -- python3 -m http.server",
	}
	c.Flags().BoolVarP(&detach, "detach", "d", false, "let the command run on, and say its session")
	n, f := connectionFlags(a, c), addCommandFlags(c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		target, argv, err := target(cmd, args, "SANDBOX")
		if err != nil || argv == nil {
			return err
		}
		in, err := f.session(argv, cmd.InOrStdin(), cmd.ErrOrStderr(), a.lookupenv)
		if err != nil {
			return err
		}
		if detach && f.rest != nil {
			return wrongly("leave out -i and -t; more than 1 MiB of stdin goes with 'space cp' into a file", "nobody stays who could send the stdin of a command that is detached")
		}
		door, err := n.door(target)
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		if detach {
			return n.begin(cmd.Context(), door, in, cmd.OutOrStdout())
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{door: door, signals: signals, in: f.rest, tell: cmd.ErrOrStderr()}
		return interrupted(ctx, talk.run(ctx, in, n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
	}
	return c
}

// begin starts a command, and says its session without waiting for its end.
func (n *connection) begin(ctx context.Context, d door, in client.SessionCreate, out io.Writer) error {
	s, err := d.create(ctx, in)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	for e, err := range d.attach(ctx, s) {
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		switch e.Type {
		case client.EventStarted:
			return n.showDone(out, s.Session.Id, "running")
		case client.EventExit: // before it has begun
			return ending(e.Exit)
		case client.EventLost:
			return exitCode{exitPlatform, e.Lost}
		}
	}
	return exitCode{exitPlatform, errors.New("the command's events ended before it began")}
}
