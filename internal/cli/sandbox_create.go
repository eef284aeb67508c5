package cli

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

func sandboxCreateCommand(n *connection) *cobra.Command {
	var in client.SandboxCreate
	var vcpus, memory int
	metadata := map[string]string{}
	c := &cobra.Command{
		Use: "create TEMPLATE", Short: "Create a sandbox and wait until it runs", Args: cobra.ExactArgs(1),
		Example: "  space sandbox create base --metadata task=42",
	}
	c.Flags().StringToStringVar(&metadata, "metadata", nil, "NAME=VALUE to keep with it")
	c.Flags().IntVar(&vcpus, "vcpus", 0, "virtual CPUs; the template's if not given")
	c.Flags().IntVar(&memory, "memory-mb", 0, "memory in MiB; the template's if not given")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in.Template = args[0]
		if cmd.Flags().Changed("vcpus") {
			in.Vcpus = &vcpus
		}
		if cmd.Flags().Changed("memory-mb") {
			in.MemoryMb = &memory
		}
		if len(metadata) > 0 {
			m := gen.Metadata(maps.Clone(metadata))
			in.Metadata = &m
		}
		return n.createSandbox(cmd, in)
	}
	return c
}

func (n *connection) createSandbox(cmd *cobra.Command, in client.SandboxCreate) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	op, err := c.BeginCreateSandbox(cmd.Context(), in)
	if err != nil {
		return err
	}
	s, err := awaitSandbox(cmd.Context(), c, op, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if n.json() {
		return WriteJSON(cmd.OutOrStdout(), s)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), s.Id)
	return err
}
