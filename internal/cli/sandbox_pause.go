package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxPauseCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "pause SANDBOX…", Short: "Have sandboxes stand still: their memory stays in their node's", Args: cobra.MinimumNArgs(1),
		Long:    "Have sandboxes stand still: their memory stays in their node's, so they're back at once, but lost with it. 'suspend' keeps it durably.",
		Example: "  space sandbox pause sbx_…", ValidArgsFunction: n.completes(true, sandboxes("running")),
		RunE: n.withEach("pausing", (*client.Client).PauseSandbox),
	}
}

func sandboxResumeCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "resume SANDBOX…", Short: "Have paused sandboxes run on", Args: cobra.MinimumNArgs(1),
		Example: "  space sandbox resume sbx_…", ValidArgsFunction: n.completes(true, sandboxes("paused")),
		RunE: n.withEach("resuming", (*client.Client).ResumeSandbox),
	}
}

func sandboxSuspendCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "suspend SANDBOX…", Short: "Keep sandboxes durably, with memory and processes, and free their node of them", Args: cobra.MinimumNArgs(1),
		Example: "  space sandbox suspend sbx_…", ValidArgsFunction: n.completes(true, sandboxes("running", "paused")),
		RunE: n.withEach("suspending", (*client.Client).SuspendSandbox),
	}
}

func sandboxRestoreCommand(n *connection) *cobra.Command {
	var cold bool
	c := &cobra.Command{
		Use: "restore SANDBOX…", Short: "Have suspended sandboxes go on where they were", Args: cobra.MinimumNArgs(1),
		Example: "  space sandbox restore sbx_…\n  space sandbox restore --cold sbx_…            # boot from the disk alone", ValidArgsFunction: n.completes(true, sandboxes("suspended")),
		RunE: n.withEach("restoring", func(c *client.Client, ctx context.Context, id string) (client.Sandbox, error) {
			return c.RestoreSandbox(ctx, id, cold)
		}),
	}
	c.Flags().BoolVar(&cold, "cold", false, "boot from the disk, and leave the memory: for a snapshot that can't be loaded any more")
	return c
}

func sandboxWakeCommand(n *connection) *cobra.Command {
	return &cobra.Command{
		Use: "wake SANDBOX…", Short: "Start, resume or restore sandboxes, whichever they need", Args: cobra.MinimumNArgs(1),
		Example: "  space sandbox wake sbx_…", ValidArgsFunction: n.completes(true, sandboxes("stopped", "paused", "suspended")),
		RunE: n.withEach("waking", (*client.Client).WakeSandbox),
	}
}

func sandboxRollbackCommand(n *connection) *cobra.Command {
	var cold bool
	c := &cobra.Command{
		Use: "rollback SANDBOX [SNAPSHOT]", Short: "Have a sandbox go on from one of its snapshots", Args: cobra.RangeArgs(1, 2),
		Long: "Has a sandbox go on from one of its snapshots, its recovery point if none is given. What it is now is given up when the snapshot runs. A lost\n" +
			"sandbox comes back this way.",
		Example: "  space sandbox rollback sbx_…                  # to its recovery point\n  space sandbox rollback sbx_… snp_…",
	}
	c.ValidArgsFunction = n.completes(false, sandboxes("running", "paused", "suspended", "stopped", "lost"), snapshotsOfFirst)
	c.Flags().BoolVar(&cold, "cold", false, "boot from the snapshot's disk, and leave its memory")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		snapshot := ""
		if len(args) == 2 {
			if snapshot = args[1]; snapshot == "" { // a variable that is empty in a script, say: nothing is given up for that
				return wrongly("leave it out for the recovery point; 'space sandbox snapshots "+args[0]+"' shows the others", "SNAPSHOT is empty")
			}
		}
		return n.withEach("rolling back", func(c *client.Client, ctx context.Context, id string) (client.Sandbox, error) {
			return c.RollbackSandbox(ctx, id, snapshot, cold)
		})(cmd, args[:1])
	}
	return c
}
