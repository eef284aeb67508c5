package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func templateRemoveCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "rm TEMPLATE", Aliases: []string{"delete"}, Short: "Delete a template; refused while a sandbox uses it", Args: cobra.ExactArgs(1),
		Example: "  space template rm tpl_…", ValidArgsFunction: n.completes(false, templates),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			if err := c.DeleteTemplate(ctx, args[0]); err != nil {
				return err
			}
			return n.showDone(out, args[0], "deleted")
		})}
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
	return &cobra.Command{Use: "logs TEMPLATE", Short: "Show the log of a template's build", Args: cobra.ExactArgs(1),
		Example: "  space template logs mine", ValidArgsFunction: n.completes(false, templates),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			head := []string{"TIME", "STEP", "LINE"}
			return showList(n, out, c.TemplateLogs(ctx, args[0]), head, func(l client.LogLine) []string {
				return []string{l.At.UTC().Format(time.TimeOnly), step(l), l.Text}
			})
		})}
}
