// Command space is the whole platform in one binary: the client's commands, those that run a platform on this machine, and a hidden
// subcommand for each role.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/space-platform/space/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], append(platformCommands(), roleCommands()...)...))
}

// platformCommands lists what runs a platform on this machine; one file each.
func platformCommands() []*cobra.Command {
	return []*cobra.Command{
		upCommand(), downCommand(), statusCommand(), logsCommand(), setupCommand(), purgeCommand(), instancesCommand(),
		versionCommand(), bootstrapKeyCommand(), doctorCommand(), metricsCommand(), pidFileCommand(), rotateLogsCommand(),
	}
}
