package main

import (
	"github.com/spf13/cobra"
)

func setupCommand() *cobra.Command {
	c := &cobra.Command{Use: "setup", Short: "Install packages and make users and directories, without starting anything", Args: cobra.NoArgs, Example: "  space setup"}
	name := instanceFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		n, err := name()
		if err != nil {
			return err
		}
		_, err = prepare(cmd.Context(), newSteps(cmd.ErrOrStderr()), n, true)
		return err
	}
	return c
}
