package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

func templateCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "template", Short: "Build and show templates", Args: cobra.NoArgs, RunE: help,
		SuggestFor: []string{"build", "images", "image"}}
	n := connectionFlags(a, c)
	c.AddCommand(templateListCommand(n), templateGetCommand(n), templateBuildCommand(n), templateCreateCommand(n), templateLogsCommand(n),
		templateTagCommand(n), templateAliasCommand(n), templateUploadCommand(n), templateRemoveCommand(n))
	return c
}

func showTemplates(to io.Writer, list []client.Template) error {
	rows := make([][]string, len(list))
	for i, t := range list {
		rows[i] = []string{t.Name, string(t.State), strconv.Itoa(t.Vcpus), mebibytes(t.MemoryMb), mebibytes(t.DiskMb), t.Id,
			yes(t.Current), strings.Join(t.Tags, ","), strings.Join(t.Aliases, ",")}
	}
	return WriteTable(to, []string{"NAME", "STATE", "VCPUS", "MEMORY", "DISK", "ID", "CURRENT", "TAGS", "ALIASES"}, rows)
}

// yes marks what is so.
func yes(so bool) string {
	if so {
		return "yes"
	}
	return "–"
}

func (n *connection) showTemplate(to io.Writer, t client.Template) error {
	if n.json() {
		return WriteJSON(to, t)
	}
	if err := showTemplates(to, []client.Template{t}); err != nil {
		return err
	}
	if t.Progress != nil && *t.Progress != "" {
		fmt.Fprintf(to, "progress: %s\n", printable(*t.Progress, ""))
	}
	if t.Error != nil {
		fmt.Fprintf(to, "error: %s: %s\n", t.Error.Code, printable(detail(t), "\n\t"))
	}
	return nil
}

func detail(t client.Template) string {
	if t.Error.Detail != nil {
		return *t.Error.Detail
	}
	return t.Error.Title
}
