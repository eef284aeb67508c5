package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/host/vmm/pager"
)

// pagerCommand is the process beside a machine that brings its memory page by page; spaced-host starts it.
func pagerCommand() *cobra.Command {
	return &cobra.Command{
		Use: pager.Subcommand, Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) { os.Exit(pager.Main(args)) },
	}
}
