package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/telemetry"
)

// roleCommands lists the roles. Each is wired in a file of its own, role_NAME.go.
func roleCommands() []*cobra.Command {
	return []*cobra.Command{
		supervisorRole(),
		postgresRole(),
		apiRole(),
		edgeRole(),
		hostRole(),
		rootfsCommand(),
		pagerCommand(),
		managerRole(),
		nodeAPIRole(),
		e2bRole(),
	}
}

// roleRun is what a role does until its context ends; it says to o when it serves. An error makes the supervisor start it again after a
// while.
type roleRun func(ctx context.Context, i instance.Instance, c instance.Config, o *telemetry.Ops) error

// roleCommand makes the hidden subcommand of a role: it reads the instance and its configuration, gives up the means to gain
// privileges, logs JSON lines on stderr, and ends on SIGTERM.
func roleCommand(r instance.Role, short string, run roleRun) *cobra.Command {
	var name string
	c := &cobra.Command{Use: string(r), Short: short, Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		i, err := instance.Find(name)
		if err != nil {
			return err
		}
		cfg, err := instance.LoadConfig(i)
		if err != nil {
			return err
		}
		if err := confine(i, r); err != nil {
			return fmt.Errorf("start role %s: %w", r, err)
		}
		slog.SetDefault(slog.New(telemetry.LogHandler(slog.NewJSONHandler(os.Stderr, nil))).With("role", string(r)))
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		if err := observed(ctx, i, cfg, r, run); err != nil && !errors.Is(err, context.Canceled) {
			slog.Error("role ended", "err", err)
			return err
		}
		return nil
	}}
	c.Flags().StringVar(&name, "instance", instance.DefaultName, "name of the platform on this machine")
	return c
}

// confine checks that the process runs as the role's user and sets no_new_privs on all its threads. spaced-host is the exception:
// it is root, and sets it on the threads from which it starts machines.
func confine(i instance.Instance, r instance.Role) error {
	if uid := i.UID(r); os.Geteuid() != uid {
		return fmt.Errorf("it must run as uid %d (%s), not %d; 'space up' starts it", uid, i.User(r), os.Geteuid())
	}
	if r == instance.Host || r == instance.Supervisor {
		return nil
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	return nil
}
