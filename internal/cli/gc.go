package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func gcCommand(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "gc", Short: "Let snapshots go that aren't needed any more, or show which would", Args: cobra.NoArgs,
		Long: "Lets snapshots go that nobody asked for, that nothing was suspended into or is being made of, and that are no sandbox's newest. The platform does\n" +
			"so by itself within a minute.",
		Example: "  space gc --dry-run\n  space gc",
	}
	n := connectionFlags(a, c)
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would go, and let nothing go")
	c.RunE = n.act(func(ctx context.Context, c *client.Client, _ []string, out io.Writer) error {
		collect := c.CollectGarbage
		if dry {
			collect = c.Garbage
		}
		g, err := collect(ctx)
		if err != nil {
			return err
		}
		if n.json() {
			return WriteJSON(out, g)
		}
		rows := [][]string{}
		for _, s := range g.Items {
			rows = append(rows, snapshotRow(s))
		}
		if err := WriteTable(out, snapshotHead, rows); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s, %s\n", counted(len(g.Items), "snapshot"), size(g.Bytes))
		return err
	})
	return c
}
