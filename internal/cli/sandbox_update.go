package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func sandboxUpdateCommand(n *connection) *cobra.Command {
	f := &lifeFlags{}
	c := &cobra.Command{
		Use: "update SANDBOX", Short: "Change a sandbox's metadata, environment or lifetime", Args: cobra.ExactArgs(1),
		Long: "Changes what is given. Metadata and environment are replaced as a whole.",
		Example: "  space sandbox update sbx_… --lifetime 2h --on-expiry stop\n" +
			"  space sandbox update sbx_… --metadata team=a --metadata run=7",
	}
	c.ValidArgsFunction = n.completes(false, sandboxes())
	f.add(c)
	c.RunE = n.act(func(ctx context.Context, cl *client.Client, args []string, out io.Writer) error {
		var in client.SandboxUpdate
		var err error
		if in.Metadata, in.Env, in.Lifetime, err = f.values(); err != nil {
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
	onExpiry      string
}

func (f *lifeFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE; may be repeated")
	s.StringArrayVarP(&f.env, "env", "e", nil, "NAME=VALUE for all its sessions; may be repeated")
	spanVar(s, &f.lifetime, "lifetime", "how long it lives from now on, for example 90m")
	s.StringVar(&f.onExpiry, "on-expiry", "", "what happens then: delete or stop; none removes a lifetime")
	c.RegisterFlagCompletionFunc("on-expiry", cobra.FixedCompletions([]string{"delete", "stop", "none"}, cobra.ShellCompDirectiveNoFileComp))
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
	return metadata, env, f.life(), nil
}

func (f *lifeFlags) life() *gen.Lifetime {
	switch {
	case f.lifetime == 0 && f.onExpiry == "":
		return nil
	case f.lifetime == 0:
		return &gen.Lifetime{OnExpiry: gen.LifetimeOnExpiry(f.onExpiry)}
	}
	seconds := int(f.lifetime / time.Second)
	l := &gen.Lifetime{Seconds: &seconds, OnExpiry: gen.LifetimeOnExpiry(f.onExpiry)}
	if f.onExpiry == "" {
		l.OnExpiry = "delete"
	}
	return l
}

// pairs reads NAME=VALUE.
func pairs(flag string, list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, p := range list {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, exitCode{exitUsage, &cliError{code: "usage", message: flag + " " + p + " has no name or no value", hint: "write NAME=VALUE"}}
		}
		out[name] = value
	}
	return out, nil
}
