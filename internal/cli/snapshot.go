package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func snapshotCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "snapshot", Short: "List, show and delete snapshots of sandboxes", Args: cobra.NoArgs, RunE: help, SuggestFor: []string{"snapshots"}}
	n := connectionFlags(a, c)
	c.AddCommand(snapshotListCommand(n), snapshotGetCommand(n), snapshotRemoveCommand(n))
	return c
}

var snapshotHead = []string{"ID", "NAME", "SANDBOX", "KIND", "FOR", "STATE", "SIZE", "TAKEN"}

func snapshotRow(s client.Snapshot) []string {
	taken, bytes := "–", "–"
	if s.TakenAt != nil {
		taken = s.TakenAt.UTC().Format(time.RFC3339)
	}
	if s.SizeBytes != nil {
		bytes = size(*s.SizeBytes)
	}
	return []string{s.Id, text(s.Name), s.Sandbox, string(s.Kind), string(s.Purpose), string(s.State), bytes, taken}
}

func snapshotListCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List all snapshots, newest first", Args: cobra.NoArgs,
		Example: "  space snapshot ls\n  space snapshot ls -o json",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, c.ListSnapshots(ctx, ""), snapshotHead, snapshotRow)
		})}
}

func snapshotGetCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "get SNAPSHOT", SuggestFor: []string{"inspect", "show"}, Short: "Show a snapshot, by id or name", Args: cobra.ExactArgs(1),
		Example: "  space snapshot get snp_…", ValidArgsFunction: n.completes(false, snapshots("")),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			s, err := c.GetSnapshot(ctx, args[0])
			if err != nil {
				return err
			}
			if err := n.show(out, s, snapshotHead, snapshotRow(s)); err != nil || n.json() {
				return err
			}
			return showError(out, s.Error)
		})}
}

func snapshotRemoveCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "rm SNAPSHOT…", Aliases: []string{"delete"}, Short: "Delete snapshots; what was made of them stays", Args: cobra.MinimumNArgs(1),
		Example: "  space snapshot rm snp_…", ValidArgsFunction: n.completes(true, snapshots("")),
		RunE: n.onEach("deleted", (*client.Client).DeleteSnapshot)}
}

func sandboxSnapshotsCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "snapshots SANDBOX", Short: "List a sandbox's snapshots, newest first", Args: cobra.ExactArgs(1),
		Example: "  space sandbox snapshots sbx_…", ValidArgsFunction: n.completes(false, sandboxes()),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			return showList(n, out, c.ListSnapshots(ctx, args[0]), snapshotHead, snapshotRow)
		})}
}

func sandboxSnapshotCommand(n *connection) *cobra.Command {
	kind, name := gen.SnapshotCreateKind("full"), ""
	c := &cobra.Command{
		Use: "snapshot SANDBOX", Short: "Take a snapshot of a sandbox, which goes on", Args: cobra.ExactArgs(1),
		Long:    "Takes a snapshot of a sandbox, which goes on, and waits until it's durable. With --name it stays when the sandbox is deleted.",
		Example: "  space sandbox snapshot sbx_… --name before-upgrade\n  space sandbox snapshot sbx_… --kind disk", ValidArgsFunction: n.completes(false, sandboxes("running", "paused", "stopped")),
	}
	choiceVar(c, &kind, "kind", "full has memory, processes and files, disk the files alone", []gen.SnapshotCreateKind{"full", "disk"})
	c.Flags().StringVar(&name, "name", "", "what to call it: lower-case letters, digits, dots, dashes and underscores")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in := client.SnapshotCreate{Kind: &kind}
		if cmd.Flags().Changed("name") {
			in.Name = &name
		}
		c, err := n.client()
		if err != nil {
			return err
		}
		s, err := withProgress(cmd.ErrOrStderr(), "taking a snapshot of sandbox "+args[0], func() (client.Snapshot, error) { return c.CreateSnapshot(cmd.Context(), args[0], in) })
		if err != nil {
			return err
		}
		if n.json() {
			return WriteJSON(cmd.OutOrStdout(), s)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), s.Id)
		return err
	}
	return c
}

// snapshots are those of a sandbox, or of the project if that's empty.
func snapshots(sandbox string) candidates {
	return func(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
		return each(c.ListSnapshots(ctx, sandbox), func(s client.Snapshot) cobra.Completion {
			return cobra.CompletionWithDesc(s.Id, text(s.Name)+" "+string(s.Kind)+", "+string(s.State))
		})
	}
}

// snapshotsOfFirst are those of the sandbox that stands before them.
func snapshotsOfFirst(ctx context.Context, c *client.Client, before []string) iter.Seq2[cobra.Completion, error] {
	return snapshots(before[0])(ctx, c, before)
}
