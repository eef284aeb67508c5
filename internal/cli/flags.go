package cli

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/client"
)

// connection is what a client command was told about the platform to use and the format to show.
type connection struct {
	app      *app
	settings settings
	json     func() bool
}

// connectionFlags adds the flags that every client command has.
func connectionFlags(a *app, c *cobra.Command) *connection {
	n := &connection{app: a}
	f := c.PersistentFlags()
	f.StringVar(&n.settings.instance, "instance", "", "platform in the configuration file (SPACE_INSTANCE)")
	f.StringVar(&n.settings.url, "url", "", "address of the platform's API (SPACE_URL)")
	f.StringVar(&n.settings.keyFile, "api-key-file", "", "file with an API key (SPACE_API_KEY holds the key itself)")
	n.json = OutputFlag(c)
	return n
}

func (n *connection) client() (*client.Client, error) { return n.settings.client(n.app.getenv) }
