package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/postgres"
)

// bootstrapKeyCommand prints a fresh key of the default project. It goes to the database itself, which lets in nobody but root and
// the control plane's user; so it works before the API serves, and needs no key.
func bootstrapKeyCommand() *cobra.Command {
	var name, label string
	c := &cobra.Command{Use: "bootstrap-key", Short: "Print a fresh API key of the default project (root only)", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := instance.Find(name)
			if err != nil {
				return err
			}
			cfg, err := instance.LoadConfig(i)
			if err != nil {
				return err
			}
			pool, err := openDatabase(cmd.Context(), i, cfg)
			if err != nil {
				return err
			}
			defer pool.Close()
			issued, err := keys.Bootstrap(cmd.Context(), postgres.New(pool), label)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(issued)
		}}
	c.Flags().StringVar(&name, "instance", instance.DefaultName, "name of the platform on this machine")
	c.Flags().StringVar(&label, "name", "bootstrap", "what the key is for")
	return c
}
