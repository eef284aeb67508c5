package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func topCommand(a *app) *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use: "top", Short: "Show what the running sandboxes take", Args: cobra.NoArgs,
		Example: "  space top\n  space top --every 2s\n  space top -o json",
	}
	spanVar(c.Flags(), &every, "every", "again and again, with this pause, until it's interrupted", 100*time.Millisecond, day)
	n := connectionFlags(a, c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cl, err := n.client()
		if err != nil {
			return err
		}
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		for {
			list, err := measure(ctx, cl)
			if err == nil {
				err = n.showFigures(cmd.OutOrStdout(), list, every > 0)
			}
			if err != nil || every <= 0 {
				return interrupted(ctx, err)
			}
			select {
			case <-ctx.Done():
				return interrupted(ctx, ctx.Err())
			case <-time.After(every):
			}
		}
	}
	return c
}

// figures are a sandbox with what it takes; without, when it hasn't been measured yet.
type figures struct {
	Sandbox client.Sandbox  `json:"sandbox"`
	Metrics *client.Metrics `json:"metrics,omitempty"`
}

// measure asks for the figures of all running sandboxes.
func measure(ctx context.Context, c *client.Client) ([]figures, error) {
	list := []figures{}
	for s, err := range c.ListSandboxes(ctx, client.SandboxFilter{}) {
		if err != nil {
			return nil, err
		}
		if s.State != "running" {
			continue
		}
		m, err := c.Metrics(ctx, s.Id)
		var refused *client.Error
		switch {
		case err == nil:
			list = append(list, figures{s, &m})
		case errors.As(err, &refused):
			list = append(list, figures{Sandbox: s})
		default:
			return nil, err
		}
	}
	return list, nil
}

func (n *connection) showFigures(out io.Writer, list []figures, again bool) error {
	if n.json() {
		return WriteJSON(out, items[figures]{list})
	}
	if again && isTerminal(out) {
		fmt.Fprint(out, "\x1b[H\x1b[J") // the screen's upper left corner, and clear what's below
	}
	rows := make([][]string, len(list))
	for i, f := range list {
		rows[i] = append([]string{f.Sandbox.Id, f.Sandbox.Template}, f.row()...)
	}
	return WriteTable(out, []string{"SANDBOX", "TEMPLATE", "CPU", "HOST MEMORY", "HOST DISK", "RECEIVED", "SENT", "GUEST MEMORY", "GUEST DISK", "PROCESSES", "LOAD"}, rows)
}

func (f figures) row() []string {
	m := f.Metrics
	if m == nil {
		return []string{"–", "–", "–", "–", "–", "–", "–", "–", "–"}
	}
	cpu := "–"
	if m.CpuPercent != nil {
		cpu = fmt.Sprintf("%.1f %%", *m.CpuPercent)
	}
	row := []string{cpu, size(m.MemoryBytes), size(m.DiskBytes), traffic(m.NetworkReceivedBytes), traffic(m.NetworkSentBytes)}
	g := m.Guest
	if g == nil {
		return append(row, "–", "–", "–", "–")
	}
	load := "–"
	if g.Load != nil {
		load = fmt.Sprintf("%.2f", *g.Load)
	}
	return append(row, size(g.MemoryUsedBytes)+"/"+size(g.MemoryTotalBytes), size(g.DiskUsedBytes)+"/"+size(g.DiskTotalBytes), fmt.Sprint(g.Processes), load)
}

// traffic shows what went over a sandbox's network, if it has one.
func traffic(n *int64) string {
	if n == nil {
		return "–"
	}
	return size(*n)
}

// size shows bytes as people read them.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
