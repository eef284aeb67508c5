package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// instanceFlag adds --instance and returns what names the platform: the flag, SPACE_INSTANCE, the configuration, the default.
func instanceFlag(c *cobra.Command) func() (string, error) {
	var name string
	c.Flags().StringVar(&name, "instance", "", "name of the platform on this machine (SPACE_INSTANCE)")
	return func() (string, error) {
		if name != "" {
			return name, nil
		}
		return cli.CurrentInstance(userEnvironment)
	}
}

// find returns a platform of this machine.
func find(name func() (string, error)) (instance.Instance, error) {
	n, err := name()
	if err != nil {
		return instance.Instance{}, err
	}
	i, err := instance.Find(n)
	if errors.Is(err, fs.ErrNotExist) {
		return i, cli.ErrorWithHint("not_found", others()+"'space up --instance "+n+"' makes this one", "there is no platform called %s on this machine", n)
	}
	return i, err
}

// others names the platforms of this machine for a hint, if there are any.
func others() string {
	slots, err := instance.List()
	if err != nil || len(slots) == 0 {
		return ""
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(slots)), ", ") + ": choose with --instance or SPACE_INSTANCE; "
}

// userEnvironment reads the environment of the user whom the command works for: with sudo, the configuration is the caller's, not root's.
func userEnvironment(name string) string {
	if name == "HOME" && os.Geteuid() == 0 {
		if u, err := user.Lookup(os.Getenv("SUDO_USER")); err == nil {
			return u.HomeDir
		}
	}
	return os.Getenv(name)
}

// mustBeRoot refuses commands that make users, mounts and processes of others.
func mustBeRoot(c *cobra.Command) error {
	if os.Geteuid() != 0 {
		return cli.ErrorWithHint("forbidden", "run it with sudo", "'%s' needs root: it makes system users, mounts and processes of theirs", c.CommandPath())
	}
	return nil
}
