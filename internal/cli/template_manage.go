package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func templateRemoveCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "rm TEMPLATE…", Aliases: []string{"delete"}, Short: "Delete templates; one that a sandbox uses is refused", Args: cobra.MinimumNArgs(1),
		Example: "  space template rm tpl_…\n  space template rm tpl_… tpl_…", ValidArgsFunction: n.completes(true, templates),
		RunE: n.onEach("deleted", (*client.Client).DeleteTemplate)}
}

func templateTagCommand(n *connection) *cobra.Command {
	var remove bool
	c := &cobra.Command{Use: "tag TEMPLATE TAG", Short: "Let NAME:TAG mean this template from now on", Args: cobra.ExactArgs(2),
		Example: "  space template tag tpl_… stable && space run base:stable -- true", ValidArgsFunction: n.completes(false, templates)}
	c.Flags().BoolVar(&remove, "remove", false, "remove the tag instead")
	c.RunE = n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
		if remove {
			if err := c.DeleteTemplateTag(ctx, args[0], args[1]); err != nil {
				return err
			}
			return n.showDone(out, args[1], "removed")
		}
		t, err := c.SetTemplateTag(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return n.showTemplate(out, t)
	})
	return c
}

func templateAliasCommand(n *connection) *cobra.Command {
	var remove bool
	c := &cobra.Command{Use: "alias TEMPLATE NAME", Short: "Give a template another name", Args: cobra.ExactArgs(2),
		Example: "  space template alias tpl_… python", ValidArgsFunction: n.completes(false, templates)}
	c.Flags().BoolVar(&remove, "remove", false, "remove the name instead")
	c.RunE = n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
		if remove {
			if err := c.DeleteTemplateAlias(ctx, args[0], args[1]); err != nil {
				return err
			}
			return n.showDone(out, args[1], "removed")
		}
		t, err := c.SetTemplateAlias(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return n.showTemplate(out, t)
	})
	return c
}

func templateLogsCommand(n *connection) *cobra.Command {
	var follow bool
	c := &cobra.Command{Use: "logs TEMPLATE", Short: "Show the log of a template's build", Args: cobra.ExactArgs(1),
		Long:    "Shows the log of a template's newest build. With -f lines are shown as they come, until the build has ended; it fails as the build does.",
		Example: "  space template logs mine\n  space template logs -f mine", ValidArgsFunction: n.completes(false, templates)}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "as it goes on, until the build has ended")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := n.client()
		if err != nil {
			return err
		}
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		if follow {
			return interrupted(ctx, n.followLog(cmd.OutOrStdout(), cl.FollowTemplateLogs(ctx, args[0])))
		}
		return interrupted(ctx, showList(n, cmd.OutOrStdout(), cl.TemplateLogs(ctx, args[0]), []string{"TIME", "STEP", "LINE"}, logRow))
	}
	return c
}

func logRow(l client.LogLine) []string {
	return []string{l.At.UTC().Format(time.TimeOnly), step(l), l.Text}
}

// followLog shows each line when it comes.
func (n *connection) followLog(out io.Writer, all iter.Seq2[client.LogLine, error]) error {
	enc := json.NewEncoder(out)
	for l, err := range all {
		if err != nil {
			return err
		}
		if n.json() {
			err = enc.Encode(l)
		} else {
			_, err = fmt.Fprintf(out, "%s  %-4s  %s\n", l.At.UTC().Format(time.TimeOnly), step(l), printable(l.Text, "\t"))
		}
		if err != nil {
			return fmt.Errorf("show a line of the log: %w", err)
		}
	}
	return nil
}
