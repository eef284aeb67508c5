package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
)

// prepare makes what must exist before the roles start. It starts by looking at what is there.
func prepare(ctx context.Context, s *steps, name string, install bool) (instance.Instance, error) {
	i, err := instance.Claim(name)
	if err != nil {
		return i, err
	}
	if install {
		if err := s.do("packages", func() (string, error) { return installMissing(ctx, s.to) }); err != nil {
			return i, err
		}
	}
	return i, s.do("users, directories, binaries", func() (string, error) { return "", ensureFiles(ctx, i) })
}

func installMissing(ctx context.Context, tell io.Writer) (string, error) {
	missing, err := setup.Missing(ctx)
	if err != nil || len(missing) == 0 {
		return "all there", err
	}
	fmt.Fprintf(tell, "  installing %s\n", strings.Join(missing, " "))
	if err := setup.Install(ctx, missing, tell); err != nil {
		return "", err
	}
	return "installed " + strings.Join(missing, " "), nil
}

func ensureFiles(ctx context.Context, i instance.Instance) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := setup.EnsureUsers(ctx, i); err != nil {
		return err
	}
	if err := setup.EnsureDirectories(i); err != nil {
		return err
	}
	if err := setup.EnsureConfiguration(i); err != nil {
		return err
	}
	if filepath.Dir(self) == i.BinDir() {
		return nil // it's the copy that runs
	}
	return setup.EnsureBinaries(i, filepath.Dir(self))
}
