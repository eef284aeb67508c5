package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// upResult is what people and programs need to know of a platform that is up.
type upResult struct {
	Instance string  `json:"instance"`
	URL      string  `json:"url"`
	EdgeURL  string  `json:"edge_url"`
	Config   string  `json:"config"` // the user's file, which holds the key
	Seconds  float64 `json:"seconds"`
}

func upCommand() *cobra.Command {
	var noInstall bool
	c := &cobra.Command{
		Use: "up", Short: "Start the platform on this machine, installing and making what is missing", Args: cobra.NoArgs,
		Example: "  space up\n  space up --instance demo",
		Long: "Starts the platform as separate processes with users of their own. It may be repeated: what runs goes on running, what is\n" +
			"missing is made, and roles of an older build are replaced while sandboxes live on.",
	}
	name, json := instanceFlag(c), cli.OutputFlag(c)
	database := databaseFlag(c)
	c.Flags().BoolVar(&noInstall, "no-install", false, "don't install Debian packages")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		n, err := name()
		if err != nil {
			return err
		}
		url, err := database()
		if err != nil {
			return err
		}
		r, err := up(cmd.Context(), newSteps(cmd.ErrOrStderr()), n, !noInstall, url)
		if err != nil {
			return err
		}
		if json() {
			return cli.WriteJSON(cmd.OutOrStdout(), r)
		}
		current, err := cli.CurrentInstance(userEnvironment)
		if err != nil {
			return err
		}
		return r.show(cmd.OutOrStdout(), current)
	}
	return c
}

func up(ctx context.Context, s *steps, name string, install bool, database string) (upResult, error) {
	i, err := prepare(ctx, s, name, install)
	if err != nil {
		return upResult{}, err
	}
	cfg, err := instance.LoadConfig(i)
	if err != nil {
		return upResult{}, err
	}
	replace := false
	if err := s.do("database", func() (note string, err error) {
		note, replace, err = adoptDatabase(ctx, i, database)
		return note, err
	}); err != nil {
		return upResult{}, err
	}
	if err := s.do("roles", func() (string, error) { return startRoles(ctx, i, replace) }); err != nil {
		return upResult{}, err
	}
	if err := s.do("control plane", func() (string, error) { return "", awaitControl(ctx, i) }); err != nil {
		return upResult{}, err
	}
	path := ""
	if err := s.do("API key", func() (note string, err error) { note, path, err = ensureKey(ctx, i, cfg.PublicURL); return note, err }); err != nil {
		return upResult{}, err
	}
	if err := s.do("E2B's SDKs", func() (string, error) { return cfg.E2BURL + " and " + cfg.E2BSandboxURL, awaitE2B(ctx, i) }); err != nil {
		return upResult{}, err
	}
	if err := s.do("node", func() (string, error) { return awaitNode(ctx, i, s.to, userEnvironment) }); err != nil {
		return upResult{}, err
	}
	return upResult{Instance: name, URL: cfg.PublicURL, EdgeURL: cfg.EdgeURL, Config: path, Seconds: s.total().Seconds()}, nil
}

// show says what to do next: commands find this platform by themselves only if it's the current one.
func (r upResult) show(to io.Writer, current string) error {
	which := ""
	if r.Instance != current {
		which = " --instance " + r.Instance
	}
	_, err := fmt.Fprintf(to, `Platform %s is up after %.1f s.
  API   %s  (contract at /openapi.yaml)
  edge  %s
  key   in %s
Next: space template build%[6]s base && space run%[6]s base -- uname -a
`, r.Instance, r.Seconds, r.URL, r.EdgeURL, r.Config, which)
	return err
}
