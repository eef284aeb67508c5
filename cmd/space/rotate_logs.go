package main

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/supervise"
)

// rotateLogsCommand is called by systemd's timer where no supervisor does it.
func rotateLogsCommand() *cobra.Command {
	c := &cobra.Command{Use: "rotate-logs", Short: "Keep the logs of the roles small", Hidden: true, Args: cobra.NoArgs}
	name := instanceFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		return supervise.Rotate(i.LogDir(), logNames())
	}
	return c
}
