package doctor

import (
	"fmt"
	"io"
	"strings"
)

// width is where the details begin.
const width = 30

// Write shows a report to people: a line per finding, and below it what it means and what mends it.
func (r Report) Write(to io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-5s %-*s %s\n", f.State, width, f.Title, f.Detail)
		if f.Meaning != "" {
			fmt.Fprintf(&b, "      %-*s → %s\n", width, "", f.Meaning)
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "      %-*s $ %s\n", width, "", f.Fix)
		}
	}
	b.WriteString("\n" + r.conclusion() + "\n")
	_, err := io.WriteString(to, b.String())
	return err
}

func (r Report) conclusion() string {
	if r.Ready {
		return "'space up' will work on this machine."
	}
	return "'space up' will not work until what is marked fail is mended."
}
