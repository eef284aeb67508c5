package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// format is the value of -o.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

// String, Set and Type make it a flag.
func (f *format) String() string { return string(*f) }

// Set refuses what isn't a format.
func (f *format) Set(s string) error {
	if s != string(formatTable) && s != string(formatJSON) {
		return fmt.Errorf("want table or json")
	}
	*f = format(s)
	return nil
}

// Type is shown in help texts.
func (f *format) Type() string { return "table|json" }

// OutputFlag adds -o to a command and returns a function that tells whether it asks for JSON.
func OutputFlag(c *cobra.Command) func() bool {
	f := formatTable
	c.PersistentFlags().VarP(&f, "output", "o", "how to show results")
	c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return func() bool { return f == formatJSON }
}

// wantsJSON tells whether errors of a command are wanted as JSON.
func wantsJSON(c *cobra.Command) bool {
	f := c.Flag("output")
	return f != nil && f.Value.String() == string(formatJSON)
}

// askForJSON tells whether arguments that couldn't be parsed have the flag that asks for JSON.
func askForJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case arg == "-ojson" || arg == "-o=json" || arg == "--output=json":
			return true
		case (arg == "-o" || arg == "--output") && i+1 < len(args) && args[i+1] == string(formatJSON):
			return true
		}
	}
	return false
}

// WriteJSON shows a document.
func WriteJSON(to io.Writer, document any) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// WriteTable shows rows under a head.
func WriteTable(to io.Writer, head []string, rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{head}, rows...) {
		cells := make([]string, len(r))
		for i, cell := range r {
			cells[i] = printable(cell, "")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(to, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// items is how lists look in JSON, as in the API.
type items[T any] struct {
	Items []T `json:"items"`
}
