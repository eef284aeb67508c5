package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func sandboxCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: "Create, show, change, suspend, fork and delete sandboxes", Args: cobra.NoArgs, RunE: help,
		SuggestFor: []string{"ls", "list", "create", "rm", "delete", "stop", "start", "inspect", "pause", "suspend", "fork", "snapshot", "rollback"}}
	n := connectionFlags(a, c)
	c.AddCommand(sandboxCreateCommand(n), sandboxListCommand(n), sandboxGetCommand(n), sandboxUpdateCommand(n),
		sandboxPauseCommand(n), sandboxResumeCommand(n), sandboxSuspendCommand(n), sandboxRestoreCommand(n), sandboxWakeCommand(n),
		sandboxForkCommand(n), sandboxSnapshotCommand(n), sandboxSnapshotsCommand(n), sandboxRollbackCommand(n),
		sandboxStopCommand(n), sandboxStartCommand(n), sandboxTokenCommand(n), sandboxURLCommand(n), sandboxRemoveCommand(n))
	return c
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func showSandboxes(to io.Writer, list []client.Sandbox) error {
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.Id, s.Template, string(s.State), strconv.Itoa(s.Vcpus), mebibytes(s.MemoryMb), mebibytes(s.DiskMb), s.CreatedAt.UTC().Format(time.RFC3339), expiry(s)}
	}
	return WriteTable(to, []string{"ID", "TEMPLATE", "STATE", "VCPUS", "MEMORY", "DISK", "CREATED", "EXPIRES"}, rows)
}

// expiry is when a sandbox's lifetime ends, and what becomes of it then.
func expiry(s client.Sandbox) string {
	if s.Lifetime == nil || s.Lifetime.Deadline == nil {
		return "–"
	}
	return s.Lifetime.Deadline.UTC().Format(time.RFC3339) + " " + string(s.Lifetime.OnExpiry)
}

func (n *connection) showSandbox(to io.Writer, s client.Sandbox) error {
	if n.json() {
		return WriteJSON(to, s)
	}
	if err := showSandboxes(to, []client.Sandbox{s}); err != nil {
		return err
	}
	return showError(to, s.Error)
}

// showError shows what is wrong with something, if anything is.
func showError(to io.Writer, p *gen.Problem) error {
	if p == nil {
		return nil
	}
	_, err := fmt.Fprintf(to, "error: %s\n", printable(strings.TrimSuffix(p.Code+": "+text(p.Detail), ": "), "\n\t"))
	return err
}

func mebibytes(n int) string { return strconv.Itoa(n) + " MiB" }

// awaitSandbox waits, with the user, until a sandbox runs.
func awaitSandbox(ctx context.Context, c *client.Client, op client.Operation, tell io.Writer) (client.Sandbox, error) {
	id := op.Sandbox.Id
	p := startProgress(tell, "creating sandbox "+id)
	defer p.end()
	op, err := c.Await(ctx, op)
	if err != nil {
		return client.Sandbox{}, fmt.Errorf("create sandbox %s: %w", id, err)
	}
	return *op.Sandbox, nil
}
