package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// detachKey is Ctrl-], with which other consoles are left, too: no shell and few programs want it.
const detachKey = 0x1d

func attachCommand(a *app) *cobra.Command {
	var from int64
	var noStdin bool
	c := &cobra.Command{
		Use: "attach SANDBOX SESSION", Short: "Attach to a session again, from any point of its output, or watch it with others", Args: cobra.ExactArgs(2),
		Long: "Shows a session's output from where it's asked for, and ends as the session's command does. Several may be attached to one session.\n" +
			"Stdin goes to the command, if that takes any, and so do signals; in a terminal Ctrl-] detaches. With -n it's only watched, and Ctrl-C\n" +
			"ends the watching. A session that has ended shows what is kept of it. What was dropped while nobody was attached is told on stderr; only\n" +
			"with --from, which asks for what follows it, that is a failure. 'space ps' lists the sessions with how much output they have.",
		Example: "  space attach sbx_… ses_…\n  space attach -n sbx_… ses_…                   # watch, and touch nothing\n  space attach --from 4096 sbx_… ses_… -o json",
	}
	numberVar(c.Flags(), &from, "from", "", "bytes of output to leave out, where all that follows is wanted; if not given, all that is kept is shown", 0, math.MaxInt64)
	c.Flags().BoolVarP(&noStdin, "no-stdin", "n", false, "send neither stdin nor signals")
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running", "stopped", "lost"), sessions)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		door, err := n.door(args[0])
		if err != nil {
			return exitCode{exitPlatform, err}
		}
		ctx, signals, stop := interruptible(cmd.Context())
		defer stop()
		talk := conversation{door: door, signals: signals, tell: cmd.ErrOrStderr()}
		if in := cmd.InOrStdin(); !noStdin && (piped(in) || isTerminal(in)) {
			talk.in = in
		}
		talk.watches = noStdin
		return interrupted(ctx, talk.join(ctx, args[1], from, cmd.Flags().Changed("from"), n.shower(cmd.OutOrStdout(), cmd.ErrOrStderr())))
	}
	return c
}

// join stays with a session that somebody has created, until its end. It returns how this program should end.
func (c conversation) join(ctx context.Context, session string, from int64, begins bool, show shower) error {
	found, err := c.door.find(ctx, session)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	c.tellPaused(ctx)
	j := joined{SessionCreated: found, from: from, begins: begins, sent: unknownOffset}
	if found.Session.Tty != nil {
		j.tty = &gen.TerminalSize{} // which it is now isn't known: it's told ours
	}
	err = c.stay(ctx, j.tty, show, func(context.Context) (joined, error) { return j, nil })
	if errors.Is(err, errDetached) {
		fmt.Fprintln(c.tell, "space: detached; the command goes on")
		return nil
	}
	return err
}

// tellPaused says why nothing will happen, of a sandbox that stands still until it's resumed by somebody else. A token alone can't ask.
func (c conversation) tellPaused(ctx context.Context) {
	if c.door.sandbox == nil {
		return
	}
	s, err := c.door.sandbox(ctx)
	if err == nil && s.State == "paused" && s.Lifecycle != nil && s.Lifecycle.AutoWake != nil && !*s.Lifecycle.AutoWake {
		fmt.Fprintln(c.tell, "space: the sandbox is paused: the command goes on when it's resumed, as with 'space sandbox resume'")
	}
}

// errDetached ends the stay with a session that goes on.
var errDetached = errors.New("detached")

// detachable reads keys until one wants to leave.
type detachable struct {
	io.Reader
	leave context.CancelCauseFunc
}

func (d detachable) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if at := bytes.IndexByte(p[:n], detachKey); at >= 0 {
		d.leave(errDetached)
		return at, errDetached
	}
	return n, err
}

// joined is a session to stay with.
type joined struct {
	client.SessionCreated
	from   int64             // where its output begins to be shown
	begins bool              // it was asked for from there on, and not for what is kept
	sent   int64             // stdin that it has already, or unknownOffset
	tty    *gen.TerminalSize // as it is; nil: it has none
}

// unknownOffset is that of a session's stdin to which others have sent.
const unknownOffset = -1
