package cli

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

var projectHead = []string{"ID", "NAME", "SANDBOXES", "VCPUS", "MEMORY MIB", "DISK MIB", "UPLOADS MIB"}

func projectRow(p client.Project) []string {
	return []string{p.Id, p.Name, share(p.Used.Sandboxes, p.Quota.Sandboxes), share(p.Used.Vcpus, p.Quota.Vcpus),
		share(p.Used.MemoryMb, p.Quota.MemoryMb), share(p.Used.DiskMb, p.Quota.DiskMb), strconv.FormatInt(p.Used.UploadsMb, 10)}
}

// share is what's used of what is allowed.
func share[N int | int64](used N, limit *N) string {
	l := "∞"
	if limit != nil {
		l = strconv.FormatInt(int64(*limit), 10)
	}
	return strconv.FormatInt(int64(used), 10) + "/" + l
}

func projectCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "project", Short: "Create, show and limit projects", Args: cobra.NoArgs, RunE: help}
	n := connectionFlags(a, c)
	c.AddCommand(projectListCommand(n), projectGetCommand(n), projectCreateCommand(n), projectUpdateCommand(n), projectRemoveCommand(n))
	return c
}

func projectListCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List projects with what they use of their quotas", Args: cobra.NoArgs,
		Example: "  space project ls",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, c.ListProjects(ctx), projectHead, projectRow)
		})}
}

func projectGetCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "get [PROJECT]", Short: "Show a project; that of the key if none is named", Args: cobra.MaximumNArgs(1),
		Example: "  space project get\n  space project get prj_… -o json", ValidArgsFunction: n.completes(false, projects),
		RunE: n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
			p, err := theProject(ctx, c, args)
			if err != nil {
				return err
			}
			return n.show(out, p, projectHead, projectRow(p))
		})}
}

func theProject(ctx context.Context, c *client.Client, args []string) (client.Project, error) {
	if len(args) == 1 {
		return c.GetProject(ctx, args[0])
	}
	me, err := c.Me(ctx)
	return me.Project, err
}

func projectCreateCommand(n *connection) *cobra.Command {
	c := &cobra.Command{Use: "create NAME", Short: "Create a project", Args: cobra.ExactArgs(1),
		Example: "  space project create research --sandboxes 20 --memory-mb 16384"}
	quota := addQuotaFlags(c)
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		p, err := cl.CreateProject(ctx, client.ProjectCreate{Name: args[0], Quota: quota(nil)})
		if err != nil {
			return err
		}
		return n.show(out, p, projectHead, projectRow(p))
	})
	return c
}

func projectUpdateCommand(n *connection) *cobra.Command {
	var name string
	c := &cobra.Command{Use: "update PROJECT", Short: "Change a project's name or quota", Args: cobra.ExactArgs(1),
		Long:              "Changes a project's name or quota. Limits that aren't given stay as they are; -1 removes one.",
		Example:           "  space project update prj_… --name lab\n  space project update prj_… --vcpus 8 --disk-mb -1",
		ValidArgsFunction: n.completes(false, projects)}
	c.Flags().StringVar(&name, "name", "", "its new name")
	quota := addQuotaFlags(c)
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		if err := wantsChange(c); err != nil {
			return err
		}
		p, err := cl.GetProject(ctx, args[0])
		if err != nil {
			return err
		}
		p, err = cl.UpdateProject(ctx, args[0], client.ProjectUpdate{Name: given(name), Quota: quota(&p.Quota)})
		if err != nil {
			return err
		}
		return n.show(out, p, projectHead, projectRow(p))
	})
	return c
}

// addQuotaFlags adds a flag for each limit and returns what they make of the limits before; nil if none was given.
func addQuotaFlags(c *cobra.Command) func(before *client.Quota) *client.Quota {
	var sandboxes, vcpus int
	var memory, disk int64
	f := c.Flags()
	numberVar(f, &sandboxes, "sandboxes", "", "most sandboxes at once; -1 removes this limit, as with the others", -1, maxQuotaCount)
	numberVar(f, &vcpus, "vcpus", "", "most vCPUs together", -1, maxQuotaCount)
	numberVar(f, &memory, "memory-mb", "", "most memory together, in MiB", -1, maxQuotaMiB)
	numberVar(f, &disk, "disk-mb", "", "most disk together, in MiB", -1, maxQuotaMiB)
	return func(before *client.Quota) *client.Quota {
		if !f.Changed("sandboxes") && !f.Changed("vcpus") && !f.Changed("memory-mb") && !f.Changed("disk-mb") {
			return nil
		}
		q := client.Quota{}
		if before != nil {
			q = *before
		}
		change(f.Changed("sandboxes"), sandboxes, &q.Sandboxes)
		change(f.Changed("vcpus"), vcpus, &q.Vcpus)
		change(f.Changed("memory-mb"), memory, &q.MemoryMb)
		change(f.Changed("disk-mb"), disk, &q.DiskMb)
		return &q
	}
}

// change sets a limit that was given; a negative one removes it.
func change[N int | int64](given bool, value N, limit **N) {
	switch {
	case !given:
	case value < 0:
		*limit = nil
	default:
		*limit = &value
	}
}

func projectRemoveCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "rm PROJECT…", Aliases: []string{"delete"}, Short: "Delete projects that have no sandboxes; their keys are revoked", Args: cobra.MinimumNArgs(1),
		Example: "  space project rm prj_…", ValidArgsFunction: n.completes(true, projects),
		RunE: n.onEach("deleted", (*client.Client).DeleteProject)}
}
