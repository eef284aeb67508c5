package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
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
		list, err := n.listSessions(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return n.showSessions(list, cmd.OutOrStdout())
	}
	return c
}

// listSessions asks the sandbox itself. A key that may not reach into it is told what the control plane has recorded.
func (n *connection) listSessions(ctx context.Context, sandbox string) (list []client.LiveSession, err error) {
	err = n.inside(ctx, sandbox, func(p *client.Plane) error {
		list, err = p.LiveSessions(ctx)
		return err
	})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != "forbidden" || n.byToken() {
		return list, err
	}
	c, err := n.client()
	if err != nil {
		return nil, err
	}
	return recordedSessions(c.ListSessions(ctx, sandbox))
}

// recordedSessions are those that were started, as the sandbox itself would list them, but for their pids.
func recordedSessions(all iter.Seq2[client.Session, error]) ([]client.LiveSession, error) {
	list := []client.LiveSession{}
	for s, err := range all {
		if err != nil {
			return nil, err
		}
		if s.State != gen.SessionStateCreated {
			list = append(list, recorded(s))
		}
	}
	return list, nil
}

func recorded(s client.Session) client.LiveSession {
	out := client.LiveSession{
		Id: s.Id, State: gen.LiveSessionStateRunning, Argv: append([]string{}, deref(s.Argv)...), Cwd: s.Cwd, User: s.User, Tty: s.Tty != nil, StartedAt: s.StartedAt, EndedAt: s.EndedAt,
		Code: s.Code, Signal: s.Signal, TimedOut: s.TimedOut, Stopped: s.Stopped, Lost: s.Lost, Error: s.Error, OutputBytes: deref(s.OutputBytes),
	}
	if s.State == gen.SessionStateEnded {
		out.State = gen.LiveSessionStateEnded
	}
	return out
}

func (n *connection) showSessions(list []client.LiveSession, out io.Writer) error {
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
