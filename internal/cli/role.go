package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func roleCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "role", Short: "Show what each role may do", Args: cobra.NoArgs, RunE: help}
	n := connectionFlags(a, c)
	c.AddCommand(&cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the roles of users and keys, with what each may do", Args: cobra.NoArgs,
		Example: "  space role ls",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, whole(c.ListRoles(ctx)), []string{"ROLE", "PERMISSIONS"}, func(r client.RolePermissions) []string {
				return []string{string(r.Role), strings.Join(r.Permissions, " ")}
			})
		})})
	return c
}
