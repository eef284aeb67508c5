package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func psCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "ps SANDBOX", Short: "List the sessions of a sandbox, newest first, with how they are", Args: oneSandbox,
		Example: "  space ps sbx_…\n  space ps sbx_… -o json",
	}
	n := connectionFlags(a, c)
	n.tokenFlags(c)
	c.ValidArgsFunction = n.completes(false, sandboxes("running"))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return n.inside(cmd.Context(), args[0], func(p *client.Plane) error { return n.showSessions(cmd.Context(), p, cmd.OutOrStdout()) })
	}
	return c
}

func (n *connection) showSessions(ctx context.Context, p *client.Plane, out io.Writer) error {
	list, err := p.LiveSessions(ctx)
	if err != nil {
		return err
	}
	if n.json() {
		return WriteJSON(out, items[client.LiveSession]{list})
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.Id, text(s.Pid), fate(s), text(s.User), fmt.Sprint(s.OutputBytes), strings.Join(s.Argv, " ")}
	}
	return WriteTable(out, []string{"SESSION", "PID", "STATE", "USER", "OUTPUT", "COMMAND"}, rows)
}

// oneSandbox wants a sandbox, and tells those who know ps from containers what lists them.
func oneSandbox(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one SANDBOX, whose sessions are listed; 'space sandbox ls' lists the sandboxes")
	}
	return nil
}

// fate is how a session is, or how it ended.
func fate(s client.LiveSession) string {
	switch {
	case s.Lost != nil && *s.Lost: // its error says why
		return "lost"
	case s.Error != nil && *s.Error != "":
		return "not started"
	case deref(s.TimedOut):
		return "timed out"
	case s.Signal != nil:
		return *s.Signal
	case s.Code != nil:
		return fmt.Sprintf("exit %d", *s.Code)
	default:
		return string(s.State)
	}
}

// text shows what may be absent.
func text[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}
