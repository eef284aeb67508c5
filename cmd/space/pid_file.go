package main

import (
	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// pidFileCommand is called by systemd when it has started a role.
func pidFileCommand() *cobra.Command {
	var pid int
	c := &cobra.Command{Use: "pid-file ROLE", Short: "Write down which process a role is", Hidden: true, Args: cobra.ExactArgs(1)}
	name := instanceFlag(c)
	c.Flags().IntVar(&pid, "pid", 0, "of the role's process")
	c.RunE = func(_ *cobra.Command, args []string) error {
		i, err := find(name)
		if err != nil {
			return err
		}
		return supervise.Note(superviseDirs(i).Run, args[0], i.UID(instance.Role(args[0])), pid)
	}
	return c
}
