package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func sandboxGetCommand(n *connection) *cobra.Command {
	return &cobra.Command{Use: "get SANDBOX", SuggestFor: []string{"inspect", "info", "show"}, Short: "Show a sandbox", Args: cobra.ExactArgs(1),
		Example: "  space sandbox get sbx_…\n  space sandbox get sbx_… -o json", ValidArgsFunction: n.completes(false, sandboxes()), RunE: func(cmd *cobra.Command, args []string) error {
			c, err := n.client()
			if err != nil {
				return err
			}
			s, err := c.GetSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := n.showSandbox(cmd.OutOrStdout(), s); err != nil || n.json() {
				return err
			}
			return describe(cmd.OutOrStdout(), s)
		}}
}

// details are lines about one thing, each with a name.
type details [][2]string

func (d *details) add(name, format string, args ...any) {
	*d = append(*d, [2]string{name, fmt.Sprintf(format, args...)})
}

// describe shows what a sandbox's row in a table doesn't.
func describe(to io.Writer, s client.Sandbox) error {
	var d details
	d.add("execution", "%s, epoch %d, on node %s", s.Execution.Id, s.Execution.Epoch, s.Execution.Node)
	for _, name := range slices.Sorted(maps.Keys(s.Metadata)) {
		d.add("metadata", "%s=%s", name, s.Metadata[name])
	}
	if s.Parent != nil {
		d.add("made of", "%s of %s", s.Parent.Snapshot, s.Parent.Sandbox)
	}
	if s.ActiveAt != nil {
		d.add("active", "%s", s.ActiveAt.UTC().Format(time.RFC3339))
	}
	if s.Lifecycle != nil {
		d.lifecycle(*s.Lifecycle)
	}
	if p := s.RecoveryPoint; p != nil {
		d.add("recovery point", "%s, %s, of %s", p.Snapshot, p.Kind, p.At.UTC().Format(time.RFC3339))
	}
	for _, line := range d {
		if _, err := fmt.Fprintf(to, "%-15s %s\n", line[0]+":", printable(line[1], "")); err != nil {
			return err
		}
	}
	return nil
}

// lifecycle adds what a sandbox does without being told.
func (d *details) lifecycle(l client.Lifecycle) {
	if i := l.Idle; i != nil && i.AfterSeconds != nil {
		d.add("when idle", "%s after %s", i.Action, seconds(*i.AfterSeconds))
	}
	if l.AutoWake != nil && !*l.AutoWake {
		d.add("wakes", "when it's told to")
	}
	if l.Rolling != nil {
		d.rolling(*l.Rolling)
	}
}

// rolling adds how a sandbox takes snapshots of itself.
func (d *details) rolling(r client.Rolling) {
	if every := r.FullEverySeconds; every != nil {
		d.add("snapshots", "full, every %s", seconds(*every))
	}
	if every := r.DiskEverySeconds; every != nil {
		d.add("snapshots", "disk, every %s", seconds(*every))
	}
	if r.Keep != nil && (r.FullEverySeconds != nil || r.DiskEverySeconds != nil) {
		for _, t := range *r.Keep {
			if t.EverySeconds == 0 {
				d.add("keeps", "all of the last %s", seconds(t.ForSeconds))
			} else {
				d.add("keeps", "one for each %s of the last %s", seconds(t.EverySeconds), seconds(t.ForSeconds))
			}
		}
	}
	if r.BudgetMb != nil {
		d.add("at most", "%d MiB of them", *r.BudgetMb)
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
