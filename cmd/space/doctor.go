package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/host/doctor"
	"github.com/space-platform/space/internal/instance"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Say whether the platform will work on this machine, and what mends it if not", Args: cobra.NoArgs,
		Example: "  space doctor\n  space doctor -o json",
		Long: "Looks at everything that the platform needs of this machine. It needs root to look at all of it, and changes nothing.\n" +
			"The exit code is 0 if 'space up' will work, else 1.",
	}
	name, json := instanceFlag(c), cli.OutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := doctorOptions(name)
		if err != nil {
			return err
		}
		r := doctor.Run(cmd.Context(), o)
		if json() {
			err = cli.WriteJSON(cmd.OutOrStdout(), r)
		} else {
			err = r.Write(cmd.OutOrStdout())
		}
		if err == nil && !r.Ready {
			return cli.ExitCode(1)
		}
		return err
	}
	return c
}

// doctorOptions are of a platform that may not be set up yet.
func doctorOptions(name func() (string, error)) (doctor.Options, error) {
	n, err := name()
	if err != nil {
		return doctor.Options{}, err
	}
	i, err := instance.Find(n)
	if errors.Is(err, fs.ErrNotExist) {
		i, err = instance.Instance{Name: n}, nil
	}
	if err != nil {
		return doctor.Options{}, err
	}
	c, err := instance.LoadConfig(i)
	if err != nil {
		return doctor.Options{}, err
	}
	o := doctor.Options{Instance: i, Config: c}
	if _, err := os.Stat(i.RunDir()); err == nil {
		o.CacheDir = i.RunDir()
	}
	return o, nil
}
