package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxTokenCommand(n *connection) *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Issue, list and revoke tokens for a sandbox's data plane", Args: cobra.NoArgs, RunE: help}
	var name string
	var life time.Duration
	create := &cobra.Command{Use: "create SANDBOX", Short: "Issue a token; it's shown once", Args: cobra.ExactArgs(1),
		Example: "  space sandbox token create sbx_… --name browser --life 1h", ValidArgsFunction: n.completes(false, sandboxes()),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			t, err := c.CreateSandboxToken(ctx, args[0], name, life)
			if err != nil {
				return err
			}
			if n.json() {
				return WriteJSON(out, t)
			}
			_, err = fmt.Fprintln(out, t.Secret)
			return err
		})}
	create.Flags().StringVar(&name, "name", "", "what it's for")
	spanVar(create.Flags(), &life, "life", "how long it's valid; a day if not given", time.Second, 365*day)
	list := &cobra.Command{Use: "ls SANDBOX", Short: "List the tokens that are valid", Args: cobra.ExactArgs(1),
		Example: "  space sandbox token ls sbx_…", ValidArgsFunction: n.completes(false, sandboxes()),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			all, err := c.ListSandboxTokens(ctx, args[0])
			if err != nil {
				return err
			}
			if n.json() {
				return WriteJSON(out, items[client.SandboxToken]{all})
			}
			rows := make([][]string, len(all))
			for i, t := range all {
				rows[i] = []string{t.Id, text(t.Name), t.ExpiresAt.UTC().Format(time.RFC3339)}
			}
			return WriteTable(out, []string{"ID", "NAME", "EXPIRES"}, rows)
		})}
	revoke := &cobra.Command{Use: "revoke SANDBOX TOKEN", Short: "Revoke a token by its id; it stops working at once", Args: cobra.ExactArgs(2),
		Example: "  space sandbox token revoke sbx_… tok_…", ValidArgsFunction: n.completes(false, sandboxes(), tokens),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			if err := c.RevokeSandboxToken(ctx, args[0], args[1]); err != nil {
				return err
			}
			return n.showDone(out, args[1], "revoked")
		})}
	c.AddCommand(create, list, revoke)
	return c
}
