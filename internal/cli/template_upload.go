package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func templateUploadCommand(n *connection) *cobra.Command {
	c := &cobra.Command{Use: "upload", Short: "List and delete what was uploaded for builds", Args: cobra.NoArgs, RunE: help}
	c.AddCommand(&cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the project's uploads, newest first", Args: cobra.NoArgs,
		Example: "  space template upload ls",
		RunE: n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
			return showList(n, out, c.ListUploads(ctx), []string{"ID", "SIZE", "IN USE", "CREATED", "USABLE UNTIL"}, uploadRow)
		})}, &cobra.Command{Use: "rm UPLOAD…", Aliases: []string{"delete"}, Short: "Delete uploads; one that a build uses is refused", Args: cobra.MinimumNArgs(1),
		Long:    "Deletes uploads, which gives their room back. What was built of them stays. One that isn't deleted goes by itself a day after it was begun.",
		Example: "  space template upload rm upl_…", ValidArgsFunction: n.completes(true, uploads),
		RunE: n.onEach("deleted", (*client.Client).DeleteUpload)})
	return c
}

func uploadRow(u client.UploadInfo) []string {
	return []string{u.Id, size(u.Bytes), yes(u.InUse), u.CreatedAt.UTC().Format(time.RFC3339), u.UsableUntil.UTC().Format(time.RFC3339)}
}
