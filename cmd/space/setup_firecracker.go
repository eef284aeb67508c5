package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
)

// otherVersion is what a change of the version means, for whoever has just made one.
const otherVersion = "Platforms use it at their next start. What they saved with another version or driver it can't load: templates are made anew then, and what is suspended\n" +
	"boots from its disk, without its memory. 'space sandbox ls' shows what is suspended."

func setupFirecrackerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "firecracker", Short: "Install a release of Firecracker, for all platforms of this machine", Args: cobra.NoArgs,
		Long: "Downloads a release of Firecracker with its jailer, or takes its archive from a file, and installs it if it has the expected SHA-256.\n" +
			"Platforms use it at their next start where KVM works; 'space doctor' says whether it does. Firecracker is no part of SPACE.\n" +
			"Another version, or Firecracker instead of QEMU, can't load the memory that was saved before: templates are made anew, and what is suspended boots from its disk.",
		Example: "  space setup firecracker\n  space setup firecracker --release 1.16.1\n" +
			"  space setup firecracker --file firecracker-v1.16.1-x86_64.tgz --sha256 382a02a8…",
	}
	release := c.Flags().String("release", setup.FirecrackerReleases[0].Version, "version of the release")
	file := c.Flags().String("file", "", "archive of a release, as its project publishes it, instead of a download")
	sum := c.Flags().String("sha256", "", "expected SHA-256 of --file")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := mustBeRoot(cmd); err != nil {
			return err
		}
		if (*file == "") != (*sum == "") {
			return errors.New("--file and --sha256 belong together")
		}
		s := newSteps(cmd.ErrOrStderr())
		archive := setup.FirecrackerArchive{Path: *file, SHA256: *sum}
		if *file == "" {
			r, err := setup.FindFirecracker(*release)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "space-firecracker-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if err := s.do("Firecracker "+r.Version, func() (_ string, err error) {
				archive, err = setup.DownloadFirecracker(cmd.Context(), r, dir)
				return "downloaded", err
			}); err != nil {
				return cli.ErrorWithHint("unavailable", fmt.Sprintf("fetch it elsewhere: %s\n'space setup firecracker --file ARCHIVE --sha256 %s' installs it here", r.URL(), r.SHA256), "%s", err)
			}
		}
		before, _ := os.Readlink(instance.FirecrackerCurrent) // "" if none is installed
		version := ""
		err := s.do("its programs", func() (string, error) {
			dir, err := setup.InstallFirecracker(archive, func(program, jailer string) (v string, err error) {
				version, err = firecracker.Version(cmd.Context(), program, jailer)
				return version, err
			})
			return fmt.Sprintf("%s in %s", version, dir), err
		})
		if err == nil && filepath.Base(before) != version {
			fmt.Fprintln(cmd.ErrOrStderr(), otherVersion)
		}
		return err
	}
	return c
}
