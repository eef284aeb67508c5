package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func userCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "user", Short: "Add, show and remove the org's users", Args: cobra.NoArgs, RunE: help}
	n := connectionFlags(a, c)
	head, row := []string{"ID", "NAME", "ROLE"}, func(u client.User) []string { return []string{u.Id, u.Name, string(u.Role)} }
	role := client.Role("developer")
	add := &cobra.Command{Use: "add NAME", Short: "Add a user", Args: cobra.ExactArgs(1),
		Example: "  space user add ada --role admin",
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			u, err := c.CreateUser(ctx, args[0], role)
			if err != nil {
				return err
			}
			return n.show(out, u, head, row(u))
		})}
	choiceVar(add, &role, "role", "what they may do, see 'space role ls'", roleNames)
	set := &cobra.Command{Use: "role USER ROLE", Short: "Change a user's role", Args: cobra.ExactArgs(2),
		Example: "  space user role usr_… viewer", ValidArgsFunction: n.completes(false, users, words(roleNames...)),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			if !slices.Contains(roleNames, client.Role(args[1])) {
				return wrongly("the roles are "+list(roleNames)+"; 'space role ls' shows what each may do", "%q is no role", args[1])
			}
			u, err := c.UpdateUser(ctx, args[0], client.Role(args[1]))
			if err != nil {
				return err
			}
			return n.show(out, u, head, row(u))
		})}
	list := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List users", Args: cobra.NoArgs,
		Example: "  space user ls",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, c.ListUsers(ctx), head, row)
		})}
	remove := &cobra.Command{Use: "rm USER…", Aliases: []string{"remove"}, Short: "Remove users; their keys are revoked", Args: cobra.MinimumNArgs(1),
		Example: "  space user rm usr_…", ValidArgsFunction: n.completes(true, users),
		RunE: n.onEach("removed", (*client.Client).DeleteUser)}
	c.AddCommand(add, set, list, remove)
	return c
}
