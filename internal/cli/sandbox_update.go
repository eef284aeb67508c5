package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func sandboxUpdateCommand(n *connection) *cobra.Command {
	f := &lifeFlags{}
	c := &cobra.Command{
		Use: "update SANDBOX", Short: "Change a sandbox's metadata, environment or lifetime", Args: cobra.ExactArgs(1),
		Long: "Changes what is given. Metadata and environment are replaced as a whole; --snapshot-keep, too.",
		Example: "  space sandbox update sbx_… --lifetime 2h --on-expiry stop\n" +
			"  space sandbox update sbx_… --snapshot-every none\n" +
			"  space sandbox update sbx_… --metadata team=a --metadata run=7",
	}
	c.ValidArgsFunction = n.completes(false, sandboxes())
	f.add(c, "delete", "stop", "suspend", "none")
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		var in client.SandboxUpdate
		if err := wantsChange(c); err != nil {
			return err
		}
		var err error
		if in.Metadata, in.Env, in.Lifetime, err = f.values(); err != nil {
			return err
		}
		if in.Lifecycle, err = f.change(ctx, c, cl, args[0]); err != nil {
			return err
		}
		s, err := cl.UpdateSandbox(ctx, args[0], in)
		if err != nil {
			return err
		}
		return n.showSandbox(out, s)
	})
	return c
}

// lifeFlags are what can be set at a sandbox's creation and changed later.
type lifeFlags struct {
	metadata, env []string
	lifetime      time.Duration
	onExpiry      gen.LifetimeOnExpiry
	lifecycleFlags
}

// add adds the flags, with the actions that may be taken when a lifetime ends.
func (f *lifeFlags) add(c *cobra.Command, actions ...gen.LifetimeOnExpiry) {
	s := c.Flags()
	s.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE; may be repeated")
	s.StringArrayVarP(&f.env, "env", "e", nil, "NAME=VALUE for all its sessions; may be repeated")
	spanVar(s, &f.lifetime, "lifetime", "how long it lives from now on, for example 90m", time.Second, 365*day)
	usage := "what happens at the end of --lifetime; delete if not given"
	if slices.Contains(actions, "none") {
		usage += ". none removes a lifetime that it has"
	}
	choiceVar(c, &f.onExpiry, "on-expiry", usage, actions)
	f.lifecycleFlags.add(c)
}

// values are nil for what wasn't given.
func (f *lifeFlags) values() (metadata *gen.Metadata, env *gen.Environment, life *gen.Lifetime, err error) {
	if len(f.metadata) > 0 {
		m, err := pairs("--metadata", f.metadata)
		if err != nil {
			return nil, nil, nil, err
		}
		metadata = (*gen.Metadata)(&m)
	}
	if len(f.env) > 0 {
		m, err := pairs("--env", f.env)
		if err != nil {
			return nil, nil, nil, err
		}
		env = (*gen.Environment)(&m)
	}
	life, err = f.life()
	return metadata, env, life, err
}

func (f *lifeFlags) life() (*gen.Lifetime, error) {
	switch {
	case f.onExpiry == "none" && f.lifetime != 0:
		return nil, wrongly("leave out one of the two", "--on-expiry none removes a lifetime, and --lifetime sets one")
	case f.onExpiry == "none":
		return &gen.Lifetime{OnExpiry: f.onExpiry}, nil
	case f.onExpiry != "" && f.lifetime == 0:
		return nil, wrongly("add --lifetime, for example --lifetime 2h", "--on-expiry %s says what happens at the end of a lifetime, and none is given", f.onExpiry)
	case f.lifetime == 0:
		return nil, nil
	}
	seconds := int(f.lifetime / time.Second)
	return &gen.Lifetime{Seconds: &seconds, OnExpiry: cmp.Or(f.onExpiry, "delete")}, nil
}

// wantsChange refuses an update that changes nothing, with the flags that would.
func wantsChange(c *cobra.Command) error {
	var can []string
	changes := false
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			can, changes = append(can, "--"+f.Name), changes || f.Changed
		}
	})
	if changes {
		return nil
	}
	return wrongly("give one of "+list(can), "%s doesn't say what to change", c.CommandPath())
}

// pairs reads NAME=VALUE.
func pairs(flag string, list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, p := range list {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, wrongly("write NAME=VALUE", "%s %q has no name or no value", flag, p)
		}
		out[name] = value
	}
	return out, nil
}
