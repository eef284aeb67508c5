package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/host/rootfs"
)

// guestProgram is the name of the guest's binary, which lies beside this one.
const guestProgram = "spaced-guest"

// rootfsCommand is the helper that makes the file systems of templates; spaced-host starts it.
func rootfsCommand() *cobra.Command {
	return &cobra.Command{
		Use: rootfs.Subcommand, Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) { os.Exit(rootfs.HelperMain(args)) },
	}
}
