package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/pgserver"
	"github.com/space-platform/space/internal/telemetry"
)

// postgresRole becomes the database server: the process that the supervisor watches is PostgreSQL itself.
func postgresRole() *cobra.Command {
	return roleCommand(instance.Postgres, "Run the private PostgreSQL", func(ctx context.Context, i instance.Instance, _ instance.Config, _ *telemetry.Ops) error {
		data := filepath.Join(i.RoleDir(instance.Postgres), "data")
		bin, err := pgserver.Binaries(pgserver.Root, data)
		if err != nil {
			return err
		}
		s := postgresServer(i)
		s.Bin, s.Data = bin, data
		if err := s.Ensure(ctx); err != nil {
			return err
		}
		return s.Exec()
	})
}

// postgresServer says who may come in: root and the server's own user for administration, the control plane's user as the owner.
func postgresServer(i instance.Instance) pgserver.Server {
	return pgserver.Server{
		Sockets: i.RoleRunDir(instance.Postgres),
		Admins:  []string{"root", i.User(instance.Postgres)},
		Owners:  []string{i.User(instance.API)},
	}
}
