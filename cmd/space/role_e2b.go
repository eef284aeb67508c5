package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/e2b"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/telemetry"
)

// e2bRole serves E2B's SDKs on two ports of loopback.
func e2bRole() *cobra.Command {
	c := roleCommand(instance.E2B, "Use the platform with E2B's SDKs", func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error {
		control, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", i.E2BAPIPort()))
		if err != nil {
			return fmt.Errorf("listen for E2B's SDKs: %w", err)
		}
		data, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", i.E2BSandboxPort()))
		if err != nil {
			return fmt.Errorf("listen for E2B's SDKs: %w", err)
		}
		f, err := e2b.New(e2b.Config{
			API: loopback(i), Edge: fmt.Sprintf("http://127.0.0.1:%d", i.EdgePort()), Endpoint: c.E2BURL, Memory: filepath.Join(i.RoleDir(instance.E2B), "memory"),
		})
		if err != nil {
			return err
		}
		defer f.Close()
		o.Ready(f.Reaches)
		return f.Serve(ctx, control, data)
	})
	c.Hidden = false // it has a command for people, too
	c.AddCommand(e2bEnvCommand())
	return c
}

// e2bEnvCommand prints what E2B's SDKs need to know.
func e2bEnvCommand() *cobra.Command {
	var label string
	c := &cobra.Command{
		Use: "env", Short: "Print the variables with which E2B's SDKs use this platform", Args: cobra.NoArgs,
		Example: "  eval \"$(space e2b env)\"\n  space e2b env --name ci",
		Long: "Makes an API key of the form that E2B's SDKs take, and prints it and the two addresses as lines for a shell. The key has the role developer;\n" +
			"'space key list' shows it, 'space key revoke' ends it.",
	}
	name, json := instanceFlag(c), cli.OutputFlag(c)
	c.Flags().StringVar(&label, "name", "e2b", "what the key is for")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		cfg, err := instance.LoadConfig(i)
		if err != nil {
			return err
		}
		s, err := cli.Load(cli.Overrides{Instance: i.Name})
		if err != nil {
			return err
		}
		c, err := client.New(s.URL, s.APIKey)
		if err != nil {
			return err
		}
		format := api.KeyCreateFormatE2b
		key, err := c.CreateKey(cmd.Context(), client.KeyCreate{Name: label, Format: &format})
		if err != nil {
			return err
		}
		e := e2bEnvironment{cfg.E2BURL, cfg.E2BSandboxURL, key.Secret}
		if json() {
			return cli.WriteJSON(cmd.OutOrStdout(), e)
		}
		return e.show(cmd.OutOrStdout())
	}
	return c
}

// e2bEnvironment is what E2B's SDKs read.
type e2bEnvironment struct {
	APIURL     string `json:"E2B_API_URL"`
	SandboxURL string `json:"E2B_SANDBOX_URL"`
	APIKey     string `json:"E2B_API_KEY"`
}

func (e e2bEnvironment) show(to io.Writer) error {
	_, err := fmt.Fprintf(to, "export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\nexport E2B_API_KEY=%s\n", e.APIURL, e.SandboxURL, e.APIKey)
	return err
}
