package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func treeCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "tree [SANDBOX]", Short: "Show sandboxes with their snapshots, and with what was forked from them", Args: cobra.MaximumNArgs(1),
		Long: "Shows sandboxes with their snapshots, and below each what was forked or created of it; of one SANDBOX the tree that it's in. A deleted sandbox stands there\n" +
			"as long as something is left of it. A snapshot that was given up came after one that its sandbox was rolled back to.",
		Example: "  space tree\n  space tree sbx_…\n  space tree -o json",
	}
	n := connectionFlags(a, c)
	c.ValidArgsFunction = n.completes(false, sandboxes())
	c.RunE = n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
		boxes, err := collect(c.ListSandboxes(ctx, client.SandboxFilter{}))
		if err != nil {
			return err
		}
		snapshots, err := collect(c.ListSnapshots(ctx, ""))
		if err != nil {
			return err
		}
		roots := grow(boxes, snapshots)
		if len(args) == 1 {
			roots = slices.DeleteFunc(roots, func(r *twig) bool { return !r.has(args[0]) })
			if len(roots) == 0 {
				return ErrorWithHint("not_found", "'space tree' without it shows all", "no tree has the sandbox %s", args[0])
			}
		}
		if n.json() {
			return WriteJSON(out, items[*twig]{roots})
		}
		for _, r := range roots {
			if err := r.write(out, "", ""); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

// collect is a whole list, which isn't nil.
func collect[T any](all func(func(T, error) bool)) ([]T, error) {
	out := []T{}
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// twig is a sandbox or a snapshot with what hangs on it: snapshots on the sandbox that they're of, sandboxes on the snapshot that they were made of.
type twig struct {
	Sandbox  *client.Sandbox  `json:"sandbox,omitempty"`
	Snapshot *client.Snapshot `json:"snapshot,omitempty"`
	Gone     string           `json:"gone,omitempty"` // the id of one that is deleted
	Below    []*twig          `json:"below"`

	at time.Time
}

// grow makes trees of what there is, oldest first. What hung on something that is deleted hangs on what stands for that.
func grow(boxes []client.Sandbox, snapshots []client.Snapshot) []*twig {
	all := map[string]*twig{}
	above := map[string]string{}
	for i := range boxes {
		s := &boxes[i]
		all[s.Id] = &twig{Sandbox: s, at: s.CreatedAt}
		if s.Parent != nil {
			above[s.Id] = s.Parent.Snapshot
		}
	}
	for i := range snapshots {
		s := &snapshots[i]
		all[s.Id] = &twig{Snapshot: s, at: s.CreatedAt}
		above[s.Id] = s.Sandbox
	}
	for i := range boxes { // a fork's snapshot goes when its children run: they hang on what it was of
		if p := boxes[i].Parent; p != nil && all[p.Snapshot] == nil {
			above[boxes[i].Id] = p.Sandbox
		}
	}
	for id, up := range above {
		switch gone := all[up]; {
		case gone == nil:
			all[up] = &twig{Gone: up, at: all[id].at}
		case gone.Gone != "" && all[id].at.Before(gone.at): // it's older than all that was made of it
			gone.at = all[id].at
		}
	}
	roots := []*twig{}
	for id, t := range all {
		if up := all[above[id]]; up != nil {
			up.Below = append(up.Below, t)
		} else {
			roots = append(roots, t)
		}
	}
	for _, t := range all {
		t.sort()
	}
	slices.SortFunc(roots, older)
	return roots
}

func (t *twig) sort() {
	if t.Below == nil {
		t.Below = []*twig{}
	}
	slices.SortFunc(t.Below, older)
}

// has reports whether a sandbox, or what is deleted, is in the tree.
func (t *twig) has(id string) bool {
	return t.Snapshot == nil && t.id() == id || slices.ContainsFunc(t.Below, func(b *twig) bool { return b.has(id) })
}

func older(a, b *twig) int {
	if c := a.at.Compare(b.at); c != 0 {
		return c
	}
	return strings.Compare(a.id(), b.id())
}

func (t *twig) id() string {
	switch {
	case t.Sandbox != nil:
		return t.Sandbox.Id
	case t.Snapshot != nil:
		return t.Snapshot.Id
	default:
		return t.Gone
	}
}

// String is one line about it.
func (t *twig) String() string {
	switch {
	case t.Sandbox != nil:
		return fmt.Sprintf("%s  %s  %s", t.Sandbox.Id, t.Sandbox.State, t.Sandbox.Template)
	case t.Snapshot != nil:
		row := snapshotRow(*t.Snapshot)
		if given := t.Snapshot.GivenUp; given != nil && *given {
			row[5] += ", given up"
		}
		return strings.TrimSpace(fmt.Sprintf("%s  %s %s, %s, %s  %s", t.Snapshot.Id, row[3], row[4], row[5], row[6], row[1]))
	default:
		return t.Gone + "  deleted"
	}
}

func (t *twig) write(out io.Writer, first, rest string) error {
	if _, err := fmt.Fprintln(out, first+t.String()); err != nil {
		return err
	}
	for i, b := range t.Below {
		branch, stem := "├─ ", "│  "
		if i == len(t.Below)-1 {
			branch, stem = "└─ ", "   "
		}
		if err := b.write(out, rest+branch, rest+stem); err != nil {
			return err
		}
	}
	return nil
}
