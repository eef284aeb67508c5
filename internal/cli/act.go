package cli

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// act is what a command does with its platform.
type act func(ctx context.Context, c *client.Client, args []string, out io.Writer) error

// act makes a RunE of it.
func (n *connection) act(do act) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := n.client()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args, cmd.OutOrStdout())
	}
}

// onEach does the same to each thing that is named, the others too when one fails, and says what each is then.
func (n *connection) onEach(state string, do func(*client.Client, context.Context, string) error) func(*cobra.Command, []string) error {
	return n.act(func(ctx context.Context, c *client.Client, args []string, out io.Writer) error {
		var errs []error
		for _, ref := range args {
			err := do(c, ctx, ref)
			if err == nil {
				err = n.showDone(out, ref, state)
			}
			errs = append(errs, err)
		}
		return together(errs)
	})
}

// show shows one thing as JSON, or as a table.
func (n *connection) show(out io.Writer, document any, head []string, row []string) error {
	if n.json() {
		return WriteJSON(out, document)
	}
	return WriteTable(out, head, [][]string{row})
}

// showDone says what a command did to something.
func (n *connection) showDone(out io.Writer, id, state string) error {
	if n.json() {
		return WriteJSON(out, map[string]string{"id": id, "state": state})
	}
	_, err := fmt.Fprintln(out, id)
	return err
}

// showList shows a list as JSON, or as a table with a row for each item.
func showList[T any](n *connection, out io.Writer, all iter.Seq2[T, error], head []string, row func(T) []string) error {
	list, rows := []T{}, [][]string{}
	for item, err := range all {
		if err != nil {
			return err
		}
		list, rows = append(list, item), append(rows, row(item))
	}
	if n.json() {
		return WriteJSON(out, items[T]{list})
	}
	return WriteTable(out, head, rows)
}
