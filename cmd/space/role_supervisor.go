package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
	"github.com/space-platform/space/internal/telemetry"
)

func supervisorRole() *cobra.Command {
	return roleCommand(instance.Supervisor, "Keep the roles running", func(ctx context.Context, i instance.Instance, _ instance.Config, _ *telemetry.Ops) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		return supervise.Run(ctx, superviseDirs(i), programs(i, self))
	})
}
