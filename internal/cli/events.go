package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

var eventID = regexp.MustCompile(`^[0-9]{0,19}$`)

func eventsCommand(a *app) *cobra.Command {
	var follow bool
	var sandbox, after string
	c := &cobra.Command{
		Use: "events", Short: "Show what happened to sandboxes, templates and keys", Args: cobra.NoArgs,
		Long: "Shows the lifecycle events of the project, oldest first. With -f it shows what happens from now on, until it is interrupted;\n" +
			"with --after what has happened since the event with that id, which -o json shows, comes first, so that a reader that went away misses nothing.",
		Example: "  space events -f\n  space events -f --after 1234 -o json\n  space events --sandbox sbx_… -o json",
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "what happens from now on, as it happens")
	c.Flags().StringVar(&sandbox, "sandbox", "", "of this sandbox only")
	c.Flags().StringVar(&after, "after", "", "id of an event, with -f: what came after it is shown first")
	n := connectionFlags(a, c)
	n.completesFlag(c, "sandbox", sandboxes())
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if after != "" && !follow {
			return wrongly("without -f all events that are kept are shown", "--after goes with -f")
		}
		if !eventID.MatchString(after) {
			return wrongly("'space events -o json' shows the ids", "--after %q is no event's id", after)
		}
		cl, err := n.client()
		if err != nil {
			return err
		}
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		all := cl.ListEvents(ctx, sandbox)
		if follow {
			all = cl.FollowEvents(ctx, sandbox, after)
		}
		return interrupted(ctx, n.showEvents(cmd.OutOrStdout(), all))
	}
	return c
}

// showEvents shows each event when it comes, one a line.
func (n *connection) showEvents(out io.Writer, all iter.Seq2[client.LifecycleEvent, error]) error {
	enc := json.NewEncoder(out)
	for e, err := range all {
		if err != nil {
			return err
		}
		if n.json() {
			err = enc.Encode(document(e))
		} else {
			_, err = fmt.Fprintf(out, "%-20s  %-20s %s\n", moment(e), e.Type, printable(subject(e), ""))
		}
		if err != nil {
			return fmt.Errorf("show an event: %w", err)
		}
	}
	return nil
}

// document is an event as the API gives it: one that says that others are missed has no time.
func document(e client.LifecycleEvent) any {
	if e.Type == client.EventsMissed {
		return map[string]any{"type": e.Type, "to": e.Id}
	}
	return e
}

func moment(e client.LifecycleEvent) string {
	if e.At.IsZero() {
		return "-"
	}
	return e.At.UTC().Format(time.RFC3339)
}

// subject is what an event is about.
func subject(e client.LifecycleEvent) string {
	if e.Type == client.EventsMissed {
		return "events up to " + e.Id + " are no longer kept"
	}
	for _, id := range []*string{e.Sandbox, e.Template, e.Key} {
		if id != nil {
			return *id
		}
	}
	return ""
}
