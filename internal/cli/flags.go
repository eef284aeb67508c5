package cli

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// connection is what a client command was told about the platform to use and the format to show.
type connection struct {
	app   *app
	flags Overrides
	token material // of commands that have tokenFlags
	json  func() bool
}

// connectionFlags adds the flags that every client command has.
func connectionFlags(a *app, c *cobra.Command) *connection {
	n := &connection{app: a}
	f := c.PersistentFlags()
	f.StringVar(&n.flags.Instance, "instance", "", "platform in the configuration file (SPACE_INSTANCE)")
	f.StringVar(&n.flags.URL, "url", "", "address of the platform's API (SPACE_URL)")
	f.StringVar(&n.flags.APIKeyFile, "api-key-file", "", "file with an API key (SPACE_API_KEY holds the key itself)")
	c.RegisterFlagCompletionFunc("instance", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return Instances(a.getenv), cobra.ShellCompDirectiveNoFileComp
	})
	n.json = OutputFlag(c)
	return n
}

func (n *connection) client() (*client.Client, error) {
	s, err := n.flags.load(n.app.getenv)
	if err != nil {
		return nil, err
	}
	return client.New(s.URL, s.APIKey)
}
