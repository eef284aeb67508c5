package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

var keyHead = []string{"ID", "NAME", "PREFIX", "ROLE", "PROJECT", "STATE"}

func keyRow(k client.Key) []string {
	return []string{k.Id, k.Name, k.Prefix, string(k.Role), k.Project, keyState(k, time.Now())}
}

func keyState(k client.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && k.ExpiresAt.Before(now):
		return "expired"
	case k.ExpiresAt != nil:
		return "until " + k.ExpiresAt.UTC().Format(time.RFC3339)
	default:
		return "valid"
	}
}

func keyCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "Create, show and revoke API keys", Args: cobra.NoArgs, RunE: help}
	n := connectionFlags(a, c)
	c.AddCommand(keyCreateCommand(n), keyListCommand(n), keyRevokeCommand(n))
	return c
}

func keyCreateCommand(n *connection) *cobra.Command {
	var project, user string
	var role client.Role
	var expires time.Duration
	var e2b bool
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an API key; it's shown once", Args: cobra.ExactArgs(1),
		Example: "  space key create ci --role developer --expires 720h\n  export E2B_API_KEY=$(space key create sdk --e2b)",
	}
	choiceVar(c, &role, "role", "what it may do, see 'space role ls': at most what you and its user may; if not given, developer or what of it they may", roleNames)
	c.Flags().StringVar(&project, "project", "", "id of another project")
	c.Flags().StringVar(&user, "for", "", "id of the user whose key it is")
	spanVar(c.Flags(), &expires, "expires", "how long it's valid; for ever if not given", time.Second, 10*365*day)
	c.Flags().BoolVar(&e2b, "e2b", false, "in the form that E2B's SDKs insist on")
	n.completesFlag(c, "project", projects)
	n.completesFlag(c, "for", users)
	c.RunE = n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
		in := client.KeyCreate{Name: args[0], Project: given(project), User: given(user)}
		if role != "" {
			in.Role = &role
		}
		if expires > 0 {
			until := time.Now().Add(expires).UTC()
			in.ExpiresAt = &until
		}
		if e2b {
			f := gen.KeyCreateFormatE2b
			in.Format = &f
		}
		k, err := c.CreateKey(ctx, in)
		if err != nil {
			return err
		}
		if n.json() {
			return WriteJSON(out, k)
		}
		_, err = fmt.Fprintln(out, k.Secret)
		return err
	})
	return c
}

func keyListCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List API keys, newest first", Args: cobra.NoArgs,
		Example: "  space key ls",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, c.ListKeys(ctx), keyHead, keyRow)
		})}
}

func keyRevokeCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "revoke KEY…", Aliases: []string{"rm"}, Short: "Revoke API keys by their ids; they stop working at once", Args: cobra.MinimumNArgs(1),
		Example: "  space key revoke key_…", ValidArgsFunction: n.completes(true, keys),
		RunE: n.onEach("revoked", (*client.Client).RevokeKey)}
}

// given is a parameter that may be absent.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
